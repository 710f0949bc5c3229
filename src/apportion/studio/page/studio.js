"use strict";
// The steps, the run with its progress, files to save, and the start of the page.

const DOWNLOADS = {
  "labels.csv": "A label for every row, with its confidence.",
  "episodes.csv": "When every activity began and ended.",
  "report.html": "The report, to open, print or send.",
  "settings.json": "All settings. In the studio's folder, “apportion label --settings settings.json --output again.csv” gives the same labels.",
  "corrections.csv": "What you corrected, as known labels.",
};

function initStudio() {
  element("run").addEventListener("click", () => attempt("run-problem", "POST", "api/run", {}));
  element("run-full").addEventListener("click", async () => {
    if (await attempt("run-problem", "POST", "api/run", {})) element("labels").scrollIntoView();
  });
  element("cancel").addEventListener("click", () => attempt("run-problem", "POST", "api/cancel", {}));
  element("report-box").addEventListener("toggle", showReport);
  views.push(showHeader, showRun, showResult, showSave, showSteps);
}

function showHeader({ folder, version, other_tabs: others }) {
  element("folder").textContent = folder;
  element("version").textContent = version;
  document.title = `${folder} – apportion studio`;
  const words = others
    ? "This studio is open in another tab, too. What you do in one appears in the other; work in one of them." : "";
  if (isNew("tabs", words)) element("other-tabs").textContent = words;
}

// What to do next: the number of the step, and words.
function nextStep({ files, understanding, job, run }) {
  if (job?.state === "running") return [3, job.kind === "quick" ? "labels are being found again." : "labels are being found."];
  if (!files.readings) return [1, "choose a table of windows."];
  if (!files.diary && !files.proportions) return [1, "choose a diary or totals."];
  if (!understanding) return [2, "the files are being read."];
  if (!understanding.ok) return [2, "something does not fit yet: see what and how to fix it."];
  if (!run) return [3, "check what was understood, then find labels."];
  if (!run.in_memory || run.stale) return [3, "find labels again: files, settings or the studio have changed."];
  if (openCorrections()) return [4, "relabel to see what your corrections change."];
  if (run.kind === "quick") return [5, "correct more, or run in full before you save."];
  return [4, `look at the ${hasTimes() ? "days" : "rows"} and correct them, or save the labels.`];
}

function showSteps(found) {
  const [step, words] = nextStep(found);
  const links = [...document.querySelectorAll("#steps a")];
  const done = [Boolean(found.files.readings), Boolean(found.understanding?.ok), Boolean(found.run), Boolean(found.run), false];
  links.forEach((link, index) => {
    link.parentElement.classList.toggle("done", done[index] && index + 1 !== step);
    if (index + 1 === step) link.setAttribute("aria-current", "step");
    else link.removeAttribute("aria-current");
  });
  if (!isNew("next", [step, words])) return;
  element("next-link").setAttribute("href", links[step - 1].getAttribute("href"));
  element("next-link").textContent = words;
}

function showRun({ job, understanding, run }) {
  const busy = job?.state === "running";
  const ready = Boolean(understanding?.ok);
  element("run").disabled = busy || !ready;
  element("run").textContent = run ? "Find labels again" : "Find labels";
  element("cancel").hidden = !busy;
  element("progress").hidden = !busy;
  element("run-words").textContent = ready
    ? "Rows get labels that add up to the totals. You can cancel at any time."
    : "Labels can be found once the files fit together.";
  if (busy) showProgress(job);
  const cancelled = job?.id === run?.id ? "The labels are kept." : "Nothing was changed.";
  const failed = job?.state === "failed" ? job.problem : job?.state === "cancelled" ? `Cancelled. ${cancelled}` : "";
  const opened = !drawn.has("job"); // then nothing had the focus yet
  if (isNew("job", [job?.id, job?.state])) {
    // A quick answer is asked for beside the corrections, and that is where it fails.
    for (const [id, kind] of [["run-problem", "full"], ["relabel-problem", "quick"]]) {
      element(id).textContent = (job?.kind === kind && failed) || "";
    }
    if (busy && job.kind === "full") element("cancel").focus({ preventScroll: true });
    else if (!opened && !busy) queueMicrotask(() => keepFocus(job?.kind === "quick" ? "changed" : "run-result"));
  }
}

function showProgress({ stage, detail, done, seconds, left }) {
  const bar = element("progress-bar");
  if (done === null) bar.removeAttribute("value");
  else bar.value = done;
  const share = done === null ? "" : `, ${Math.round(100 * done)} %`;
  const time = left === null ? `${duration(Math.round(seconds))} so far` : `about ${duration(Math.max(1, Math.round(left)))} left`;
  element("progress-words").textContent = `${capitalized(stage || "working")}${detail ? `: ${detail}` : ""}${share}, ${time}.`;
  // A screen reader hears stages, not every step of the bar.
  if (isNew("stage", stage)) element("progress-status").textContent = capitalized(stage || "working");
}

function showResult({ run, job, understanding }) {
  if (!isNew("result", [run, job?.state, understanding?.ok, understanding?.notes])) return;
  const words = [];
  if (run) {
    words.push(run.kind === "quick"
      ? `These labels are a quick answer from the last full run, found in ${seconds(run.seconds)}.`
      : `Labels were found in ${seconds(run.seconds)}.`);
    if (run.verdict?.level === "sound") words.push(run.verdict.sentence);
  }
  element("run-result").textContent = words.join(" ");
  // What speaks against the labels stands beside them; the report says the same.
  const doubt = run?.verdict && run.verdict.level !== "sound" ? run.verdict : null;
  const lacking = run?.kind === "full" && run.no_report && job?.state !== "running" ? [run.no_report] : [];
  element("run-doubt").textContent = [...(doubt ? [doubt.sentence, ...doubt.concerns] : []), ...lacking].join(" ");
  const shown = run?.in_memory && understanding?.ok; // notes on labels that are not shown would confuse
  const notes = shown ? run.notes.filter((note) => !understanding.notes.includes(note)) : []; // the others are above
  refill(element("run-notes"), ...(notes.length
    ? [make("details", { open: "" }, make("summary", {}, `${counted(notes.length, "note")} on these labels`), listOf(notes))] : []));
}

function seconds(number) {
  return duration(number < 10 ? +number.toFixed(1) : Math.round(number));
}

// The report is large: it is loaded when it is opened, and again after another full run.
function showReport() {
  const box = element("report-box");
  const full = state.run.kind === "full";
  const lacking = state.run.no_report;
  element("report-note").textContent = lacking || (full && !state.run.open ? "" : "This is the report of the last full run; run in full for a new one.");
  if (lacking) {
    box.querySelector("iframe")?.remove();
    return;
  }
  if (!box.open || (box.querySelector("iframe") && (!full || !isNew("report", state.run.id)))) return;
  drawn.set("report", JSON.stringify(state.run.id));
  box.querySelector("iframe")?.remove();
  box.append(make("iframe", { src: `report?run=${state.run.id}`, title: "Report", sandbox: "allow-scripts allow-downloads" }));
}

function showSave({ run, corrections, job }) {
  element("save-nothing").hidden = Boolean(run);
  const ready = run?.files ?? [];
  const always = [...(state.files.readings ? ["settings.json"] : []), ...(corrections.length ? ["corrections.csv"] : [])];
  const names = run ? Object.keys(DOWNLOADS).filter((name) => ready.includes(name) || always.includes(name)) : [];
  const earlier = run?.earlier ?? [];
  if (isNew("downloads", [names, earlier])) {
    const words = "As the last full run left it: it does not know what has changed since.";
    refill(element("downloads"), ...[...names, ...earlier].map((name) =>
      make("li", {}, make("a", { href: `download/${name}`, download: name }, name), ` ${DOWNLOADS[name] ?? words}`)));
  }
  const late = Boolean(run) && !ready.includes("labels.csv");
  element("save-warning").hidden = !late;
  element("save-warning-words").textContent = !late ? "" : run.kind === "quick" && !run.open
    ? "The labels shown are a quick answer. A full run keeps to your corrections, too, compares the methods again, estimates how many labels are right, and writes the files to save."
    : "Corrections, files or settings have changed since the last full run. Run in full to get files that know of them.";
  element("run-full").disabled = job?.state === "running";
  if (element("report-box").open) showReport();
}

async function start() {
  initFiles();
  initUnderstanding();
  initDays();
  initSelection();
  initRows();
  initCorrections();
  initQuestions();
  initStudio();
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", pollSoon); // also when it is shown again by going back
  await refresh();
  document.documentElement.dataset.ready = "true";
  pollSoon();
}
start();
