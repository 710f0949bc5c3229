"use strict";
// Step 1: the files, one card for each.

const FILES = {
  readings: {
    title: "Windows", needed: "needed",
    words: "One row per window of time: who, its start and end, and what the sensors saw.",
    such: "participant, start, end, acc_mean, light",
  },
  diary: {
    title: "Diary", needed: "a diary or totals",
    words: "One line per participant and day: how long each activity took.",
    such: "participant, date, sleep, meals, tv",
  },
  proportions: {
    title: "Totals", needed: "instead of a diary",
    words: "One line per group of rows (a bag), one column per class, with shares or counts.",
    such: "bag, sleep, meals, tv",
  },
  given: {
    title: "Known labels", needed: "if you have some",
    words: "Labels of single rows, with the rows' ids or starts.",
    such: "window, label",
  },
};
const ENDINGS = ".csv,.gz,.tsv,.txt,.parquet,.xlsx,.arff";

function initFiles() {
  element("file-cards").append(...Object.keys(FILES).map(makeCard));
  const section = element("files");
  // A file that is dropped beside a card must not replace the page.
  for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
  section.addEventListener("dragover", (event) => markCard(event.target.closest?.(".card")));
  section.addEventListener("dragleave", (event) => {
    if (!section.contains(event.relatedTarget)) markCard(null);
  });
  section.addEventListener("drop", (event) => {
    markCard(null);
    sendDropped([...event.dataTransfer.files], event.target.closest?.(".card")?.dataset.role);
  });
  views.push(showFiles);
}

function makeCard(role) {
  const { title, needed, words, such } = FILES[role];
  const input = make("input", { type: "file", id: `file-${role}`, accept: ENDINGS, class: "unseen", "aria-describedby": `about-${role}` });
  input.addEventListener("change", () => {
    if (input.files.length) sendFile(role, input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
  const remove = makeButton("Remove", () => attempt("files-status", "DELETE", `api/files/${role}`), { id: `remove-${role}` });
  return make("div", { class: "card", "data-role": role },
    make("h3", {}, title, " ", make("span", { class: "hint" }, needed)),
    make("p", { id: `about-${role}` }, words, " Columns such as ", make("code", {}, such), "."),
    make("p", { class: "file-name", id: `name-${role}` }),
    make("p", { class: "hint", id: `kept-${role}` }),
    make("p", { class: "controls" }, make("label", { class: "button" }, make("span", { class: "choose" }, "Choose a file"), make("span", { class: "unseen" }, ` of ${title}`), input), remove),
    make("p", { class: "problem", role: "alert", "data-problem": role }));
}

function markCard(card) {
  for (const other of document.querySelectorAll(".card")) other.classList.toggle("over", other === card);
}

// A file that is dropped on a card goes there. Of two that are dropped together, the larger one is the windows.
function sendDropped(files, role) {
  if (files.length === 1) {
    if (role) sendFile(role, files[0]);
    else element("files-status").textContent = "Drop the file on one of the cards.";
  } else if (files.length === 2) {
    const [smaller, larger] = files.sort((a, b) => a.size - b.size);
    const other = role && role !== "readings" ? role : /total|proportion/i.test(smaller.name) ? "proportions" : "diary";
    sendFile("readings", larger).then((fits) => fits && sendFile(other, smaller));
  } else if (files.length) {
    element("files-status").textContent = "Drop one or two files at a time.";
  }
}

async function sendFile(role, file) {
  const most = state.limits.file_bytes;
  clearProblems();
  if (file.size > most) {
    showProblem(`${file.name} has ${sizeInWords(file.size)}; the studio takes files up to ${sizeInWords(most)}.`, role);
    return false;
  }
  element("files-status").textContent = `Reading ${file.name} …`;
  const fits = await attempt("files-status", "PUT", `api/files/${role}?name=${encodeURIComponent(file.name)}`, file);
  if (fits) element("files-status").textContent = `${FILES[role].title}: ${file.name} was read.`;
  else if (!("left" in element("files-status").dataset)) element("files-status").textContent = "";
  return fits;
}

function sizeInWords(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

function showFiles({ files, job }) {
  const busy = job?.state === "running";
  for (const role of Object.keys(FILES)) {
    const file = files[role];
    const name = element(`name-${role}`);
    name.textContent = file ? `${file.name} (${sizeInWords(file.bytes)})` : "";
    // Messages name the file of the folder.
    element(`kept-${role}`).textContent = file && file.kept !== file.name ? `In the studio's folder: ${file.kept}` : "";
    name.closest(".card").classList.toggle("filled", Boolean(file));
    name.closest(".card").querySelector(".choose").textContent = file ? "Choose another" : "Choose a file";
    element(`remove-${role}`).hidden = !file;
    element(`remove-${role}`).disabled = busy;
    element(`file-${role}`).disabled = busy;
  }
}
