"use strict";
// Step 2: what was understood of the files, and the settings.

const ROLE_WORDS = {
  start: "start of the window", end: "end of the window", participant: "participant", id: "id of the row",
  bag: "bag of the row", nonwear: "sensor not worn", given: "known label", feature: "feature", unused: "not used",
};
const ROLE_SETTING = { start: "start", end: "end", participant: "participant", id: "id", bag: "bags", nonwear: "nonwear" };
const MAIN_SETTINGS = ["timezone", "day_start", "uncovered", "method"];
const MOST_ENTRIES = 500; // in the table of all totals

function initUnderstanding() {
  views.push(showSettings, showUnderstanding); // what does not fit marks its setting
}

function showUnderstanding({ understanding: found, files }) {
  // Roles of columns are known once both files are there; a file that cannot be read is said at once.
  const missing = !files.readings ? "a table of windows" : !files.diary && !files.proportions ? "a diary or totals" : "";
  const waits = !found || Boolean(missing && !found.field);
  element("understood-nothing").hidden = !waits;
  element("understood").hidden = waits;
  if (waits) {
    element("understood-nothing").textContent = found
      ? `${found.rows ? `${counted(found.rows, "row")} were read. ` : ""}Choose ${missing}, too.` : "This appears once there are files.";
    return;
  }
  if (!isNew("understanding", found)) return;
  element("understood-summary").textContent = summary(found);
  showMisfit(found);
  showColumns(found);
  showEntries(found);
  refill(element("reading-notes"), ...[["Notes", found.notes], ["Rules that were applied", found.rules]]
    .filter(([, items]) => items?.length)
    .map(([title, items]) => make("details", title === "Notes" ? { open: "" } : {}, make("summary", {}, title), listOf(items))));
}

function summary(found) {
  if (!found.rows) return "";
  const parts = [counted(found.rows, "row")];
  if (found.participants?.length) parts.push(counted(found.participants.length, "participant"));
  if (found.bags) parts.push(plural(found.bags, found.bag_word || "bag"));
  const classes = found.classes?.map(({ name }) => shortened(name, 40)).join(", ");
  return `${parts.join(", ")}.${classes ? ` Classes: ${classes}.` : ""}`;
}

function plural(number, word) {
  return number === 1 || !word.endsWith("y") ? counted(number, word) : `${number.toLocaleString("en")} ${word.slice(0, -1)}ies`;
}

// Say what does not fit, with a way to the setting or the file that it is about.
function showMisfit({ ok, problem, field }) {
  const box = element("understood-problem");
  box.hidden = ok || !problem;
  box.replaceChildren(ok ? "" : problem ?? "");
  for (const control of document.querySelectorAll(".misfit")) control.classList.remove("misfit");
  if (ok) for (const slot of document.querySelectorAll('[data-left="misfit"]')) clearProblems(slot.id);
  if (ok || !field) return;
  const control = document.querySelector(`[data-setting="${CSS.escape(field)}"]`) ?? element(`file-${field}`);
  if (!control) return;
  (control.closest(".card") ?? control).classList.add("misfit");
  const words = FILES[field] ? `Go to the file: ${FILES[field].title}` : `Go to the setting: ${settingTitle(field)}`;
  box.append(" ", makeButton(words, () => goTo(control), { class: "link", id: "go-to-misfit" }));
}

function showColumns({ columns = [], ok }) {
  const lines = columns.map((column, index) => {
    const select = make("select", { id: `role-${index}`, "aria-label": `Role of ${column.name}` });
    // Columns are recognized with the diary: while it does not fit, only those that settings name have a role.
    const open = !ok && column.role === "unused" && !state.settings.exclude?.includes(column.name);
    const roles = [...(open ? [["", "not known yet"]] : []), ...Object.entries(ROLE_WORDS)];
    for (const [role, words] of roles) {
      const option = make("option", { value: role }, words);
      option.selected = role === (open ? "" : column.role);
      select.append(option);
    }
    select.addEventListener("change", async () => {
      const changed = await attempt("columns-problem", "PUT", "api/settings", settingsForRole(column, select.value));
      if (!changed) select.value = open ? "" : column.role;
    });
    return make("tr", {},
      make("th", { scope: "row" }, column.name),
      make("td", {}, select),
      make("td", { class: "examples" }, column.examples.slice(0, 2).map((text) => shortened(text, 24)).join(", ")));
  });
  refill(element("columns").tBodies[0], ...lines);
}

// The settings that give a column another role: they name the column of a role, or leave a column out.
function settingsForRole({ name, role: before }, role) {
  const { settings } = state;
  const changes = {};
  const without = (list) => (list ?? []).filter((one) => one !== name);
  const orNull = (list) => (list.length ? list : null);
  const setting = ROLE_SETTING[before];
  if (setting && settings[setting] === name) changes[setting] = null;
  if (settings.exclude?.includes(name)) changes.exclude = orNull(without(settings.exclude));
  if (before === "given" && settings.given?.includes(name)) changes.given = orNull(without(settings.given));
  if (ROLE_SETTING[role]) changes[ROLE_SETTING[role]] = name;
  else if (role === "given") changes.given = [...without(settings.given), name];
  else if (role === "unused") changes.exclude = [...without(settings.exclude), name];
  else if (settings.features && !settings.features.includes(name)) changes.features = [...settings.features, name];
  return changes;
}

function showEntries({ entries = [], bag_word: word = "bag" }) {
  const misfits = entries.filter(({ problem }) => problem).sort((a, b) => Boolean(a.rows) - Boolean(b.rows)); // unused ones first
  const alike = new Map(); // what is the same of many is said once
  for (const entry of misfits) {
    const key = JSON.stringify([entry.problem, entry.fix]);
    alike.set(key, [...(alike.get(key) ?? []), entry]);
  }
  element("entries-box").hidden = !entries.length;
  element("entries-title").textContent = `${capitalized(plural(2, word).slice(2))}`;
  element("entries-summary").textContent = misfits.length
    ? `${misfits.length.toLocaleString("en")} of ${plural(entries.length, word)} ${misfits.length === 1 ? "needs" : "need"} a look:`
    : `All ${plural(entries.length, word)} fit the rows.`;
  element("misfits").hidden = !misfits.length;
  refill(element("misfits"), makeTable([capitalized(word), "What does not fit", "What to do"], [...alike.values()].slice(0, MOST_ENTRIES).map((members) =>
    [someOf(members.map(({ name }) => name)), capitalized(members[0].problem), capitalized(members[0].fix)])));
  const shown = entries.slice(0, MOST_ENTRIES);
  const more = entries.length > shown.length ? ` (the first ${MOST_ENTRIES})` : "";
  element("all-entries").querySelector("summary").textContent = `All ${plural(entries.length, word)} and their totals${more}`;
  refill(element("all-entries").querySelector("div"), makeTable([capitalized(word), "Rows", "Totals"], shown.map((entry) =>
    [entry.name, entry.rows.toLocaleString("en"), Object.entries(entry.totals).map(([name, total]) => `${shortened(name, 40)} ${total}`).join(", ")])));
}

// Some names of a list, and how many more there are.
function someOf(names, most = 3) {
  const rest = names.length - most;
  return rest > 1 ? `${names.slice(0, most).join(", ")} and ${rest.toLocaleString("en")} more` : names.join(", ");
}

function makeTable(headings, lines) {
  const head = make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", { scope: "col" }, text))));
  const body = make("tbody", {}, ...lines.map(([first, ...rest]) =>
    make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((text) => make("td", {}, text ?? "")))));
  return make("table", {}, head, body);
}

function showSettings({ options, settings, understanding, job }) {
  const columns = (understanding?.columns ?? []).map(({ name }) => name);
  if (isNew("options", [options, columns])) makeSettings(options, columns);
  for (const option of options) {
    const control = document.querySelector(`[data-setting="${CSS.escape(option.name)}"]`);
    if (!control) continue;
    control.disabled = job?.state === "running";
    if (isNew(`setting ${option.name}`, [settings[option.name] ?? option.default, columns])) {
      setControl(control, option, settings[option.name] ?? option.default);
    }
  }
  const changed = options.filter(({ name }) => name in settings && !MAIN_SETTINGS.includes(name)).length;
  element("more-settings").querySelector("summary").textContent = `More settings${changed ? ` (${changed} changed)` : ""}`;
}

function makeSettings(options, columns) {
  const main = MAIN_SETTINGS.map((name) => options.find((option) => option.name === name)).filter(Boolean);
  refill(element("main-settings"), ...main.map((option) => makeSetting(option, columns)));
  const panels = new Map();
  for (const option of options) {
    if (main.includes(option)) continue;
    if (!panels.has(option.panel)) panels.set(option.panel, []);
    panels.get(option.panel).push(option);
  }
  refill(element("panels"), ...[...panels].map(([title, members]) =>
    make("section", { class: "panel" }, make("h4", {}, title ?? "Other"),
      make("div", { class: "settings" }, ...members.map((option) => makeSetting(option, columns))))));
}

function makeSetting(option, columns) {
  const id = `setting-${option.name}`;
  const control = makeControl(option, columns);
  for (const [name, value] of Object.entries({ id, "data-setting": option.name, "aria-describedby": `help-${option.name} wrong-${option.name}` })) {
    control.setAttribute(name, value);
  }
  control.addEventListener("change", () => changeSetting(control, option));
  const label = make("label", { for: id }, settingTitle(option.name));
  return make("div", { class: "setting" },
    ...(option.kind === "flag" ? [make("div", { class: "flag" }, control, label)] : [label, control]),
    make("p", { class: "hint", id: `help-${option.name}` }, option.help),
    make("p", { class: "problem", role: "alert", id: `wrong-${option.name}`, "data-problem": option.name }));
}

// Send a setting. If the files no longer fit together with it, say so beside it, too.
async function changeSetting(control, { name, kind, default: usual }) {
  const value = controlValue(control, { kind });
  const fitted = state.understanding?.ok;
  const same = JSON.stringify(value) === JSON.stringify(usual);
  const sent = await attempt(`wrong-${name}`, "PUT", "api/settings", { [name]: same ? null : value });
  if (!sent || !fitted || state.understanding?.ok !== false) return;
  showProblem(state.understanding.problem, name);
  element(`wrong-${name}`).dataset.left = "misfit";
}

function settingTitle(name) {
  return capitalized(name.replaceAll("_", " "));
}

function makeControl({ kind, choices, default: usual }, columns) {
  if (kind === "flag") return make("input", { type: "checkbox" });
  if (kind === "number") return make("input", { type: "number", step: "any", placeholder: usual ?? "" });
  if (kind === "columns") return make("textarea", { rows: 2, placeholder: "one per line" });
  if (kind === "choice" || kind === "column") {
    const select = make("select", {});
    if (kind === "column" || usual === null) select.append(make("option", { value: "" }, kind === "column" ? "automatic" : "as usual"));
    for (const choice of kind === "column" ? columns : choices) {
      select.append(make("option", { value: choice }, choice === usual ? `${choice} (usual)` : choice));
    }
    return select;
  }
  return make("input", { type: "text", placeholder: usual ?? "", autocomplete: "off", spellcheck: "false" });
}

function setControl(control, { kind }, value) {
  if (kind === "flag") control.checked = Boolean(value);
  else if (kind === "columns") control.value = [value ?? []].flat().join("\n");
  else control.value = value ?? "";
}

function controlValue(control, { kind }) {
  if (kind === "flag") return control.checked;
  const text = control.value.trim();
  if (kind === "columns") {
    const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
    return lines.length ? lines : null;
  }
  if (!text) return null;
  return kind === "number" ? Number(text) : text;
}
