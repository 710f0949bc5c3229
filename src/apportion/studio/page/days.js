"use strict";
// Step 4: participants, and the days of one of them.

const LANES_PER_PAGE = 7;

const days = {
  participant: null, // whose days are shown
  names: [], byDay: [], before: null,
  classes: [], page: 0, from: 0, to: 86400, whole: [0, 86400],
  bars: [], place: null,
};

function initDays() {
  element("earlier").addEventListener("click", () => showPage(days.page - 1));
  element("later").addEventListener("click", () => showPage(days.page + 1));
  element("zoom-in").addEventListener("click", () => zoom(0.5));
  element("zoom-out").addEventListener("click", () => zoom(2));
  element("show-before").addEventListener("change", () => drawDays());
  new ResizeObserver(() => {
    const hidden = !element("lanes").clientWidth;
    if (days.place && !hidden && Math.abs(days.place.width - element("lanes").clientWidth) > 1) drawDays();
  }).observe(element("lanes"));
  views.push(showLooking);
}

function hasTimes() {
  return Boolean(state.understanding?.columns?.some(({ role }) => role === "start"));
}

// The classes of the labels that are shown; files that do not fit have none.
function classesOf() {
  return days.classes;
}

function className(label) {
  return label < 0 ? "no label" : classesOf()[label].name;
}

function showLooking({ run, corrections, understanding }) {
  const there = Boolean(run?.in_memory && understanding?.classes?.length);
  element("days-nothing").hidden = there;
  element("days-nothing").textContent = run && !run.in_memory
    ? "The studio was started again since these labels were found, or files have changed: find labels again to look at them. Your corrections are kept."
    : "The labels appear here once they are found.";
  element("looking").hidden = !there;
  if (!there) return;
  days.classes = understanding.classes;
  element("days-box").hidden = !hasTimes();
  element("rows-box").hidden = hasTimes();
  element("lanes-title").hidden = !hasTimes();
  if (isNew("legend", understanding.classes)) showLegend(understanding.classes);
  if (isNew("people of", [run, corrections, state.asked])) fetchPeople();
  if (!hasTimes()) showRowsOf(run);
  else if (isNew("days of", [run.id, run.when, corrections])) fetchDays(days.participant);
}

function showLegend(classes) {
  const items = classes.map((style) => make("li", {}, swatch({ pattern: "", ...style }), make("span", { title: style.name }, style.name)));
  const none = make("li", {}, swatch({ color: "var(--paper)", pattern: "" }), make("span", {}, "no label"));
  element("legend").replaceChildren(...items, ...(hasTimes() ? [none] : []));
}

async function fetchPeople() {
  const people = await request("GET", "api/participants").catch(() => []);
  const order = ["needs a look", "not labeled", "labeled"];
  const urgent = (one) => (order.indexOf(one.state) + 3) % 3;
  people.sort((a, b) => urgent(a) - urgent(b));
  element("people-box").hidden = people.length < 2 && !people[0]?.why;
  const lines = people.map((one, index) => {
    const choose = makeButton(one.name || "everybody", () => fetchDays(one.name), { id: `person-${index}`, class: "link", "data-person": one.name });
    return make("tr", { class: one.state.replaceAll(" ", "-") },
      make("th", { scope: "row" }, choose),
      make("td", {}, make("strong", {}, one.state), one.why ? `: ${one.why}` : ""),
      make("td", { class: "number" }, one.estimated_accuracy === null ? "–" : `${Math.round(100 * one.estimated_accuracy)} %`),
      make("td", { class: "number" }, String(one.questions)),
      make("td", { class: "number" }, String(one.corrections)));
  });
  refill(element("people").tBodies[0], ...lines);
  markPerson();
}

function markPerson() {
  for (const button of document.querySelectorAll("[data-person]")) {
    button.setAttribute("aria-pressed", String(button.dataset.person === days.participant));
    button.closest("tr").classList.toggle("shown", button.dataset.person === days.participant);
  }
}

async function fetchDays(name) {
  const names = state.understanding.participants.map((one) => one.name);
  const participant = names.includes(name) ? name : names[0] ?? "";
  const other = participant !== days.participant;
  const found = await request("GET", `api/days?participant=${encodeURIComponent(participant)}`).catch((problem) => problem);
  if (found instanceof Error) {
    if (found.status) showProblem(found.message, null, "lanes-problem");
    return;
  }
  days.participant = participant;
  days.found = found.days;
  days.names = found.days.map((day) => day.name);
  days.byDay = segmentsByDay(found.segments, days.names.length);
  days.before = found.before && segmentsByDay(found.before, days.names.length);
  element("before-box").hidden = !days.before;
  const newer = isNew("days of run", [state.run.id, state.run.when]);
  if (isNew("run with before", days.before ? state.run.id : null)) element("show-before").checked = Boolean(days.before);
  element("lanes-title").textContent = `Days${participant ? ` of ${participant}` : ""}`;
  const all = days.byDay.flat();
  days.whole = all.length ? wholeHours(lowest(all.map(({ start }) => start)), highest(all.map(({ end }) => end))) : [0, 86400];
  if (other) [days.from, days.to] = days.whole;
  if (other) clearChoice();
  markPerson();
  showPage(other ? 0 : days.page);
  if (newer && choice && !choice.rows) showChoice(); // what was chosen has other labels now
}

// Show the day of a range of time, with the range chosen.
async function showInDays({ participant, day: name, start, end }) {
  await fetchDays(participant ?? "");
  const day = days.names.findIndex((_, at) => isDay(name, at));
  if (day < 0) return;
  [days.from, days.to] = days.whole;
  showPage(Math.floor(day / LANES_PER_PAGE));
  chooseRange(day % LANES_PER_PAGE, start, end);
  element("lanes-title").scrollIntoView();
  element("lanes").focus({ preventScroll: true });
}

// A range of time, widened to whole hours if it lasts some.
function wholeHours(from, to) {
  const unit = to - from > 7200 ? 3600 : to - from > 600 ? 300 : 10;
  return [Math.floor(from / unit) * unit, Math.ceil(to / unit) * unit];
}

function showPage(page) {
  const last = Math.max(0, Math.ceil(days.names.length / LANES_PER_PAGE) - 1);
  days.page = Math.min(Math.max(page, 0), last);
  element("earlier").disabled = days.page === 0;
  element("later").disabled = days.page === last;
  element("earlier").hidden = element("later").hidden = last === 0;
  drawDays();
}

function drawDays() {
  if (!days.names.length) return element("lanes").replaceChildren("There are no windows.");
  const first = days.page * LANES_PER_PAGE;
  const shown = days.names.slice(first, first + LANES_PER_PAGE);
  const showBefore = Boolean(days.before) && element("show-before").checked;
  const most = Math.floor(MOST_BARS / shown.length / (showBefore ? 2 : 1));
  days.bars = [];
  const lanes = shown.map((name, index) => {
    const day = first + index;
    const bars = thinned(days.byDay[day], days.from, days.to, most).map((bar, at) => ({ ...bar, lane: index, number: days.bars.length + at }));
    days.bars.push(...bars);
    return { name, bars, before: showBefore ? thinned(days.before[day], days.from, days.to, most) : [], corrections: correctionsOf(day) };
  });
  days.place = drawLanes(element("lanes"), { lanes, from: days.from, to: days.to, showBefore }, classesOf());
  const range = days.from > days.whole[0] || days.to < days.whole[1] ? `, ${clock(days.from)} to ${clock(days.to)}` : "";
  element("days-shown").textContent = `${shown[0]}${shown.length > 1 ? ` to ${shown.at(-1)}` : ""}${range}`;
  element("zoom-out").disabled = !range;
  element("lanes-thinned").hidden = !days.bars.some(({ slot }) => slot);
  element("lanes-thinned").textContent = "Labels change too often to draw all of them: slots show the label of most of their time. Zoom in to see more.";
  restoreChoice();
}

// The corrections of a day, also those that the labels do not know yet.
function correctionsOf(day) {
  const names = classesOf().map(({ name }) => name);
  return state.corrections
    .filter((one) => (one.participant ?? "") === days.participant && isDay(one.day, day) && one.start !== null)
    .map((one) => ({ ...one, label: names.indexOf(one.label) }));
}

function isDay(name, day) {
  return name === days.names[day] || days.names[day].endsWith(` ${name}`);
}

// Zoom around what is chosen, else around the middle.
function zoom(factor) {
  const center = choice ? (choice.start + choice.end) / 2 : (days.from + days.to) / 2;
  const [first, last] = days.whole;
  const least = Math.min(600, last - first);
  const half = Math.min(Math.max(((days.to - days.from) * factor) / 2, least / 2), (last - first) / 2);
  const middle = Math.min(Math.max(center, first + half), last - half);
  const whole = 2 * half >= last - first;
  [days.from, days.to] = whole ? days.whole : [middle - half, middle + half].map((at) => 60 * Math.round(at / 60));
  drawDays();
}
