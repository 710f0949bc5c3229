"use strict";
// Ask me: questions about the windows whose label would tell most, one at a time, and which entry to split.

const PLOT = { width: 320, height: 56, left: 4 };
const MOST_SERIES = 4; // signals that are shown at once

const asking = { questions: [], at: 0 };

function initQuestions() {
  element("ask").addEventListener("click", fetchQuestions);
  views.push(showAsked);
}

function showAsked({ asked: counts, run, job }) {
  const parts = [[counts.answered, "answered"], [counts.skipped, "skipped"], [counts.unknown, "not known"]];
  element("asked").textContent = parts.filter(([n]) => n).map(([n, words]) => `${n} ${words}`).join(", ");
  element("ask").disabled = job?.state === "running" || !run;
  // Questions are about the labels that are shown.
  if (isNew("questions of", [run?.id, run?.when])) closeQuestions("");
}

function closeQuestions(words) {
  asking.questions = [];
  element("question").hidden = !words;
  element("question").replaceChildren(words ? make("p", { tabindex: "-1" }, words) : "");
  element("splits").replaceChildren();
}

async function fetchQuestions() {
  clearProblems();
  element("ask").disabled = true;
  element("asked").textContent = "Looking for questions …";
  try {
    const { questions, bags } = await request("GET", "api/questions");
    Object.assign(asking, { questions, at: 0 });
    showQuestion();
    element("question").querySelector("h4, p")?.focus({ preventScroll: true });
    showSplits(bags);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    showProblem(problem.message, problem.field, "ask-problem");
  }
  showAsked(state);
}

function showQuestion() {
  const { questions, at } = asking;
  if (!questions.length) return closeQuestions("There is nothing to ask: no answer would tell much.");
  if (at >= questions.length) {
    closeQuestions(openCorrections() ? "That was the last question. Relabel to use your answers." : "That was the last question.");
    element("question").firstChild.focus();
    return;
  }
  const question = questions[at];
  const likely = question.likely.map(({ label }) => label);
  const others = classesOf().map((_, label) => label).filter((label) => !likely.includes(label));
  const guess = question.likely.map(({ label, probability }) => `${className(label)} (${probability.toFixed(2)})`).join(" or ");
  element("question").hidden = false;
  element("question").replaceChildren(
    make("h4", { tabindex: "-1" }, `Question ${at + 1} of ${questions.length}: what was this?`),
    make("p", {}, make("strong", {}, [question.participant, question.words].filter(Boolean).join(", ")), `. Likely ${guess}.`),
    ...drawSignal(question),
    ...showCells(question),
    make("div", { class: "labels", role: "group", "aria-label": "This was" }, make("span", {}, "This was"), ...[...likely, ...others].map((label) =>
      makeButton([swatch({ pattern: "", ...classesOf()[label] }), classesOf()[label].name], () => answer({ action: "answer", label }), { class: "label" }))),
    make("p", { class: "controls" },
      makeButton("Skip", () => answer({ action: "skip" }), { id: "skip" }),
      makeButton("I don't know", () => answer({ action: "unknown" }), { id: "unknown" }),
      ...(question.day === null ? [] : [makeButton("Show it in the days", () => showInDays(question), { id: "show-in-days" })])),
    make("p", { class: "problem", role: "alert", id: "question-problem" }));
}

async function answer(body) {
  const { id } = asking.questions[asking.at];
  if (!(await attempt("question-problem", "POST", `api/questions/${encodeURIComponent(id)}`, body))) return;
  if (!asking.questions.length) return; // other labels are shown now
  asking.at += 1;
  showQuestion();
  element("question").querySelector("h4")?.focus();
}

function drawSignal({ signal }) {
  if (!signal?.series?.length) return [];
  const plots = signal.series.map((series) => drawSeries(signal, series));
  const rest = plots.slice(MOST_SERIES);
  const about = make("p", { class: "hint" }, "The sensors around it; the shaded part is what is asked about.");
  const more = rest.length ? [make("details", {}, make("summary", {}, `${counted(rest.length, "more signal")}`), make("div", { class: "signals" }, ...rest))] : [];
  return [about, make("div", { class: "signals" }, ...plots.slice(0, MOST_SERIES)), ...more];
}

// What a row without a time has in its columns.
function showCells({ cells }) {
  if (!cells?.length) return [];
  return [make("dl", { class: "cells" }, ...cells.map(({ name, value }) => make("div", {}, make("dt", {}, name), make("dd", {}, value))))];
}

function drawSeries({ times, from, to }, { name, values }) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [lowest(known), highest(known)];
  const [first, last] = [times[0], Math.max(times.at(-1), to)];
  const x = (time) => PLOT.left + ((time - first) / (last - first || 1)) * (PLOT.width - 2 * PLOT.left);
  const y = (value) => PLOT.height - 6 - ((value - low) / (high - low || 1)) * (PLOT.height - 12);
  let path = "";
  let pen = "M";
  values.forEach((value, at) => {
    if (value === null) pen = "M";
    else {
      path += `${pen}${x(times[at]).toFixed(1)},${y(value).toFixed(1)}`;
      pen = "L";
    }
  });
  const words = `${name}: ${+low.toPrecision(3)} to ${+high.toPrecision(3)}`;
  const svg = makeSvg("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img", "aria-label": words },
    makeSvg("rect", { x: x(from), y: 0, width: Math.max(2, x(to) - x(from)), height: PLOT.height, class: "asked" }),
    makeSvg("path", { d: path, class: "signal" }));
  return make("figure", {}, svg, make("figcaption", {}, words));
}

function showSplits(bags) {
  if (!bags.length) return element("splits").replaceChildren();
  const word = state.understanding.bag_word || "bag";
  element("splits").replaceChildren(
    make("h4", {}, `Where a finer ${word === "entry" ? "diary" : `total`} would help most`),
    make("ol", {}, ...bags.map(({ bag, words }) => make("li", {}, make("strong", {}, bag), words ? `: ${words}` : ""))));
}
