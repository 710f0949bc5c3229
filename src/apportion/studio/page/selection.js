"use strict";
// What is chosen of the days or rows, by pointer or keys, and the panel that gives it a label.

const NEAR = 5; // pixels within which a dragged edge snaps to the edge of a bar

let choice = null; // {day, start, end, lane}, or {rows}
let cursor = null; // numbers of the bars at both ends of a range that keys extend
let dragged = null;

function initSelection() {
  const box = element("lanes");
  box.addEventListener("pointerdown", startDrag);
  box.addEventListener("pointermove", moveDrag);
  box.addEventListener("pointerup", endDrag);
  box.addEventListener("pointercancel", () => (dragged = null));
  box.addEventListener("keydown", pressKey);
  box.addEventListener("focus", () => {
    if (!choice && days.bars.length && box.matches(":focus-visible")) chooseBar(0);
  });
  element("panel").addEventListener("keydown", (event) => {
    if (event.key === "Escape") leavePanel(false);
  });
}

function pointOf(event) {
  const box = element("lanes").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const lane = Math.floor((y - AXIS) / days.place.height);
  return lane >= 0 && lane < days.place.n && x >= days.place.left - 2 ? { x, lane } : null;
}

function startDrag(event) {
  const point = event.button === 0 && days.place && pointOf(event);
  if (!point) return;
  dragged = { ...point, moved: false };
  element("lanes").setPointerCapture(event.pointerId);
}

function moveDrag(event) {
  if (!dragged) return;
  const x = event.clientX - element("lanes").getBoundingClientRect().left;
  dragged.moved ||= Math.abs(x - dragged.x) > NEAR;
  if (!dragged.moved) return;
  const [start, end] = [snapped(dragged.x, dragged.lane), snapped(x, dragged.lane)].sort((a, b) => a - b);
  dragged.range = { start, end };
  chooseRange(dragged.lane, start, end, false);
}

function endDrag(event) {
  if (!dragged) return;
  const { x, lane, moved, range } = dragged;
  dragged = null;
  if (moved && range && range.end > range.start) return chooseRange(lane, range.start, range.end);
  const seconds = days.place.seconds(x);
  const bar = days.bars.find((one) => one.lane === lane && one.start <= seconds && seconds < one.end);
  if (!bar) return clearChoice();
  if (event.shiftKey && cursor && days.bars[cursor.from].lane === lane) extendTo(bar.number);
  else chooseBar(bar.number);
}

// The time at a place of a lane: the edge of a bar if there is one near it, else a whole minute.
function snapped(x, lane) {
  const { place, bars } = days;
  let [best, away] = [null, NEAR];
  for (const bar of bars) {
    if (bar.lane !== lane) continue;
    for (const edge of [bar.start, bar.end]) {
      const distance = Math.abs(place.x(edge) - x);
      if (distance < away) [best, away] = [edge, distance];
    }
  }
  return best ?? 60 * Math.round(place.seconds(x) / 60);
}

function pressKey(event) {
  const bars = days.bars;
  if (!bars.length || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && choice) element("panel").querySelector(".labels button")?.focus();
  else if (event.key === "Escape") clearChoice();
  else if (event.key === "+" || event.key === "=") zoom(0.5);
  else if (event.key === "-") zoom(2);
  else if (!moveCursor(event)) return;
  event.preventDefault();
}

// Move to another bar, or extend the range to it; whether the key was one that does.
function moveCursor({ key, shiftKey }) {
  const at = cursor?.to ?? barOfChoice();
  let next;
  if (key === "ArrowUp" || key === "ArrowDown") next = at < 0 ? 0 : nearestInLane(at, key === "ArrowUp" ? -1 : 1);
  else next = nextIndex(key, at, days.bars.length);
  if (next === null) return false;
  if (shiftKey && cursor && days.bars[next].lane === days.bars[cursor.from].lane) extendTo(next);
  else if (!shiftKey || !cursor) chooseBar(next);
  return true;
}

// The bar at the start of what is chosen; -1 if there is none.
function barOfChoice() {
  if (!choice || choice.rows) return -1;
  const lane = choice.day - days.page * LANES_PER_PAGE;
  return days.bars.findIndex((bar) => bar.lane === lane && bar.end > choice.start);
}

// The bar with the nearest start in the lane above or below; the same bar if there is no such lane.
function nearestInLane(at, step) {
  const { bars } = days;
  let best = at;
  bars.forEach((bar, number) => {
    if (bar.lane !== bars[at].lane + step) return;
    const away = Math.abs(bar.start - bars[at].start);
    if (best === at || away < Math.abs(bars[best].start - bars[at].start)) best = number;
  });
  return best;
}

function chooseBar(number) {
  const { lane, start, end } = days.bars[number];
  cursor = { from: number, to: number };
  chooseRange(lane, start, end, true, cursor);
}

function extendTo(number) {
  const ends = [days.bars[cursor.from], days.bars[number]];
  const range = { from: cursor.from, to: number };
  chooseRange(ends[0].lane, lowest(ends.map(({ start }) => start)), highest(ends.map(({ end }) => end)), true, range);
}

function chooseRange(lane, start, end, done = true, keys = null) {
  choice = { day: days.page * LANES_PER_PAGE + lane, start, end };
  cursor = keys;
  markChoice();
  if (done) showChoice();
}

function clearChoice() {
  choice = cursor = null;
  markChoice();
  element("panel").hidden = true;
  element("chosen-words").textContent = "Nothing is chosen.";
}

// Mark what is chosen after the bars were drawn again, when their numbers may be others.
function restoreChoice() {
  const whole = cursor && cursor.from === cursor.to;
  const at = barOfChoice();
  cursor = whole && at >= 0 && days.bars[at].start === choice.start ? { from: at, to: at } : null;
  markChoice();
}

function markChoice() {
  const box = element("chosen-box");
  if (!box) return;
  const lane = choice && !choice.rows ? choice.day - days.page * LANES_PER_PAGE : -1;
  const seen = lane >= 0 && lane < days.place.n && choice.end > days.from && choice.start < days.to;
  box.setAttribute("visibility", seen ? "visible" : "hidden");
  if (!seen) return;
  const { place } = days;
  const x = place.x(choice.start);
  const values = { x: x - 1, y: place.top(lane) + place.above, width: Math.max(3, place.x(choice.end) - x + 1), height: LANE - 4 };
  for (const [name, value] of Object.entries(values)) box.setAttribute(name, value);
}

// What is chosen: the time of every label in it, the longest first, with its confidence.
function contentsOf({ day, start, end }) {
  const sums = new Map();
  for (const item of days.byDay[day]) {
    const overlap = Math.min(item.end, end) - Math.max(item.start, start);
    if (overlap <= 0) continue;
    const sum = sums.get(item.label) ?? { label: item.label, seconds: 0, sure: 0, given: false };
    sum.seconds += overlap;
    sum.sure += overlap * (item.confidence ?? 0);
    sum.given ||= item.given;
    sums.set(item.label, sum);
  }
  return [...sums.values()].sort((a, b) => b.seconds - a.seconds);
}

function showChoice() {
  const { day, start, end } = choice;
  const contents = contentsOf(choice);
  const what = contents.map(({ label, seconds, sure, given }) =>
    `${className(label)}${contents.length > 1 ? ` ${duration(seconds)}` : ""}, confidence ${(sure / seconds).toFixed(2)}${given ? ", after your correction" : ""}`);
  element("chosen-words").textContent =
    `${days.names[day]}, ${clock(start)} to ${end === 86400 ? "24:00" : clock(end)} (${duration(end - start)}): ${what.join("; ") || "no windows"}.`;
  const times = make("p", { class: "controls times" }, makeTime("From", "start"), makeTime("to", "end"),
    makeButton("Close", () => leavePanel(true), { id: "close-panel" }), make("span", { class: "problem", role: "alert", id: "time-problem" }));
  showPanel(contents.map(({ label }) => label), (label, exclude) =>
    ({ participant: days.participant, day: days.names[day], start, end, label, exclude }), times);
}

function makeTime(words, side) {
  const seconds = choice[side];
  const input = make("input", { type: "text", id: `chosen-${side}`, size: 8, value: side === "end" && seconds === 86400 ? "24:00" : clock(seconds), inputmode: "numeric" });
  input.addEventListener("change", () => {
    const typed = secondsOf(input.value);
    const range = { ...choice, [side]: typed };
    if (typed === null || range.end <= range.start) {
      element("time-problem").textContent = "Write times such as 14:05, the second one after the first.";
      return;
    }
    chooseRange(choice.day - days.page * LANES_PER_PAGE, range.start, range.end);
    element(`chosen-${side}`).focus();
  });
  return make("label", {}, `${words} `, input);
}

function secondsOf(text) {
  const found = /^\s*(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*$/.exec(text);
  const seconds = found && 3600 * found[1] + 60 * found[2] + Number(found[3] ?? 0);
  return seconds !== null && seconds <= 86400 * 2 ? seconds : null;
}

// The panel of labels for what is chosen; `correction(label, exclude)` is what to send.
function showPanel(present, correction, ...more) {
  const send = async (label, exclude) => {
    const sent = await attempt("panel-problem", "POST", "api/corrections", correction(className(label), exclude));
    if (!sent) return;
    element("corrected").textContent = `Noted: ${exclude ? "not " : ""}${className(label)}. Relabel to use it.`;
  };
  const button = (label, exclude) => makeButton([swatch({ pattern: "", ...classesOf()[label] }), `${exclude ? "not " : ""}${classesOf()[label].name}`],
    () => send(label, exclude), { class: "label", id: `${exclude ? "not" : "is"}-${label}` });
  const labels = classesOf().map((_, label) => label);
  const seen = present.filter((label) => label >= 0);
  element("panel").hidden = false;
  refill(element("panel"),
    make("div", { class: "labels", role: "group", "aria-label": "This is" }, make("span", {}, "This is"), ...labels.map((label) => button(label, false))),
    make("div", { class: "labels not", role: "group", "aria-label": "This is not" }, make("span", {}, seen.length ? "or it is" : ""), ...seen.map((label) => button(label, true))),
    ...more,
    make("p", { class: "problem", role: "alert", id: "panel-problem" }),
    make("p", { role: "status", id: "corrected" }));
}

// Go back to the days or rows; what was chosen remains so unless it is closed.
function leavePanel(closed) {
  const rows = choice?.rows;
  if (closed) clearChoice();
  (rows ? element("rows").querySelector("input") : element("lanes"))?.focus();
}
