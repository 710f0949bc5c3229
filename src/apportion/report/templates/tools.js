"use strict";
// What every part of the page uses: the data, elements, words, plots, and which classes are shown.

const report = JSON.parse(document.getElementById("data").textContent);
const classes = report.classes;
const MOST_SIGNS = 60; // of a name in a hover text
const hidden = new Set();
const plots = new Map();

function element(id) {
  return document.getElementById(id);
}

// An element with attributes and children; texts stay texts.
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A text as Plotly shows it, which would take it for HTML.
function plain(text) {
  return String(text)
    .replace(/[\u0000-\u001f]+/g, " ")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;");
}

function capitalized(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function shortened(text, most) {
  const signs = [...String(text)];
  return signs.length > most ? signs.slice(0, most - 1).join("") + "…" : String(text);
}

function lowest(numbers) {
  return numbers.reduce((a, b) => Math.min(a, b), Infinity);
}

function highest(numbers) {
  return numbers.reduce((a, b) => Math.max(a, b), -Infinity);
}

function two(number) {
  return String(number).padStart(2, "0");
}

// What a clock shows so many seconds after midnight.
function clock(seconds) {
  const whole = Math.floor(seconds);
  const time = `${two(Math.floor(whole / 3600) % 24)}:${two(Math.floor(whole / 60) % 60)}`;
  const rest = seconds - 60 * Math.floor(seconds / 60);
  if (rest === 0) return time;
  return `${time}:${Number.isInteger(rest) ? two(rest) : rest.toFixed(3).padStart(6, "0")}`;
}

// So many seconds after midnight, for an axis of times. A number would not do: Plotly takes 10 to 99 and
// 1000 to 9999 for years, and all others for milliseconds of the browser's time zone.
function moment(seconds) {
  return new Date(Math.round(1000 * seconds)).toISOString();
}

function lasting(seconds) {
  if (seconds < 120) return `${+seconds.toFixed(3)} s`;
  if (seconds < 7200) return `${+(seconds / 60).toFixed(1)} min`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.round((seconds % 3600) / 60) % 60)} min`;
}

function share(percent) {
  return percent === null ? "–" : (percent / 100).toFixed(2);
}

function className(place) {
  return place < 0 ? "no label" : classes[place].name;
}

function axisTitle(text) {
  return { text, font: { size: 13 } };
}

const layoutOfAll = {
  font: { family: "system-ui, sans-serif", size: 13, color: "#1a1a1a" },
  paper_bgcolor: "#fff",
  plot_bgcolor: "#fff",
  hoverlabel: { bgcolor: "#fff", bordercolor: "#1a1a1a", font: { color: "#1a1a1a" }, align: "left", namelength: 0 },
  hovermode: "closest",
  showlegend: false,
  dragmode: "pan",
};
const configOfAll = {
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  responsive: true,
  scrollZoom: false,
  doubleClick: "reset",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
};

// Draw traces; those with a `meta` belong to the class at that place and go when it is hidden. An axis counts
// unless it says otherwise: Plotly would guess from the data.
function draw(id, traces, layout) {
  for (const trace of traces) {
    if (typeof trace.meta === "number") trace.visible = !hidden.has(trace.meta);
  }
  plots.set(id, traces);
  // When the width changes, Plotly asks the box how high it is.
  element(id).dataset.height = layout.height;
  element(id).style.height = `${layout.height}px`;
  const [xaxis, yaxis] = [layout.xaxis, layout.yaxis].map((axis) => ({ type: "linear", ...axis }));
  return Plotly.react(id, traces, { ...layoutOfAll, ...layout, xaxis, yaxis }, configOfAll);
}

function showClasses() {
  for (const [id, traces] of plots) {
    Plotly.restyle(id, { visible: traces.map((trace) => typeof trace.meta !== "number" || !hidden.has(trace.meta)) });
  }
}

// A box of details before anything is chosen; nothing of that is printed.
function tellNothing(id, words) {
  element(id).replaceChildren(make("p", { class: "screen" }, words));
}

// How a class fills a bar.
function fill(place) {
  if (place < 0) return { color: "#ffffff", line: { color: "#8a8a8a", width: 1 } };
  const look = classes[place];
  return {
    color: look.color,
    line: { color: "#ffffff", width: 0.3 },
    pattern: { shape: look.pattern, fgcolor: "#000000", fgopacity: 0.55, size: 6, solidity: 0.2, fillmode: "overlay" },
  };
}

// A small picture of a class's fill.
function swatch(place) {
  const box = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const [width, height] = [26, 14];
  for (const [name, value] of Object.entries({ width, height, class: "swatch", "aria-hidden": "true" })) {
    box.setAttribute(name, value);
  }
  const look = classes[place];
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "path");
  box.style.background = look.color;
  const lines = [];
  for (let at = -12; at < width + 12; at += 6) {
    if (look.pattern === "/" || look.pattern === "x") lines.push(`M${at},14l14,-14`);
    if (look.pattern === "\\" || look.pattern === "x") lines.push(`M${at},0l14,14`);
    if (look.pattern === "|" || look.pattern === "+") lines.push(`M${at + 3},0v14`);
    if (look.pattern === ".") lines.push(`M${at + 2},4h2M${at + 2},10h2`);
  }
  if (look.pattern === "-" || look.pattern === "+") lines.push("M0,4h26M0,10h26");
  drawn.setAttribute("d", lines.join(""));
  drawn.setAttribute("stroke", "#000000");
  drawn.setAttribute("stroke-opacity", "0.6");
  drawn.setAttribute("stroke-width", look.pattern === "." ? "2" : "1.2");
  box.append(drawn);
  return box;
}

// Choose the item that a key asks for: one on or back, the first or the last.
function stepped(key, place, n) {
  if (key === "Home") return 0;
  if (key === "End") return n - 1;
  if (key === "ArrowRight") return Math.min(place + 1, n - 1);
  if (key === "ArrowLeft") return Math.max(place - 1, 0);
  return null;
}
