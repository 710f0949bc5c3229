"use strict";
// Corrections with undo, relabeling, and what it changed.

function initCorrections() {
  element("relabel").addEventListener("click", () => attempt("relabel-problem", "POST", "api/relabel", {}));
  views.push(showCorrections, showChanged);
}

function showCorrections({ corrections, run, job, understanding }) {
  element("corrections-none").hidden = corrections.length > 0;
  element("corrections-scroll").hidden = !corrections.length;
  if (isNew("corrections", [corrections, understanding?.classes])) {
    refill(element("corrections").tBodies[0], ...corrections.toReversed().map(makeCorrection));
  }
  const open = openCorrections();
  element("relabel").disabled = job?.state === "running" || !open || run.stale;
  element("relabel-words").textContent = relabelWords(corrections.length, open);
}

// Whether there are corrections that the labels do not know, or know although they were undone.
function openCorrections() {
  return Boolean(state.run?.in_memory && state.run.open);
}

function relabelWords(all, open) {
  if (running() && state.job.kind === "quick") return "Relabeling …";
  if (state.run?.stale) return "Files or settings have changed: find labels in full first.";
  if (open) return `Find labels again, starting from these, with ${counted(all, "correction")}. It takes seconds.`;
  return all ? "The labels keep to all corrections." : `Correct something first: choose ${hasTimes() ? "a bar" : "rows"} above.`;
}

function makeCorrection({ id, participant, words, label, exclude, rows, was }) {
  const undo = makeButton("Undo", async () => {
    await attempt("relabel-problem", "DELETE", `api/corrections/${id}`);
    keepFocus("corrections-title"); // the last correction takes its button with it
  },
    { id: `undo-${id}`, "aria-label": `Undo ${words}` });
  return make("tr", {},
    make("th", { scope: "row" }, [participant, words].filter(Boolean).join(", ")),
    make("td", {}, `${exclude ? "not " : ""}${label}`),
    make("td", {}, was ?? ""),
    make("td", { class: "number" }, rows.toLocaleString("en")),
    make("td", {}, undo));
}

function showChanged({ run }) {
  const changed = run?.changed;
  const words = changed
    ? changedWords(changed) : "";
  if (!isNew("changed", [run?.id, words])) return;
  element("changed").replaceChildren(words, ...(words && hasTimes() ? [" ", make("a", { href: "#lanes-title" }, "See the days")] : []));
  element("before-words").textContent = changed ? ` (${counted(changed.rows, "row")} changed)` : "";
}

function changedWords({ rows, beside }) {
  if (!rows) return "No label changed.";
  return `${counted(rows, "row")} changed, ${beside.toLocaleString("en")} of them other than those you corrected.`;
}
