"use strict";
// Shared by all sections of the page: data, elements, formatting, plots, and the hidden classes.

const report = JSON.parse(document.getElementById("data").textContent);
const classes = report.classes;
const LONGEST_NAME = 60; // characters of a name in a hover text
const hidden = new Set();
const plots = new Map();

function element(id) {
  return document.getElementById(id);
}

// Create an element with attributes and children; strings become text nodes.
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Escape a text for Plotly, which would read it as HTML.
function escaped(text) {
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
  const characters = [...String(text)];
  return characters.length > most ? characters.slice(0, most - 1).join("") + "…" : String(text);
}

function lowest(numbers) {
  return numbers.reduce((a, b) => Math.min(a, b), Infinity);
}

function highest(numbers) {
  return numbers.reduce((a, b) => Math.max(a, b), -Infinity);
}

function twoDigits(number) {
  return String(number).padStart(2, "0");
}

// The clock time at a number of seconds after midnight.
function clock(seconds) {
  const whole = Math.floor(seconds);
  const time = `${twoDigits(Math.floor(whole / 3600) % 24)}:${twoDigits(Math.floor(whole / 60) % 60)}`;
  const rest = seconds - 60 * Math.floor(seconds / 60);
  if (rest === 0) return time;
  return `${time}:${Number.isInteger(rest) ? twoDigits(rest) : rest.toFixed(3).padStart(6, "0")}`;
}

// Seconds after midnight as a value on a time axis. It must be text: Plotly reads the numbers 10 to 99 and
// 1000 to 9999 as years, and all others as milliseconds in the browser's time zone.
function axisTime(seconds) {
  return new Date(Math.round(1000 * seconds)).toISOString();
}

function duration(seconds) {
  if (seconds < 120) return `${+seconds.toFixed(3)} s`;
  if (seconds < 7200) return `${+(seconds / 60).toFixed(1)} min`;
  return `${Math.floor(seconds / 3600)} h ${twoDigits(Math.round((seconds % 3600) / 60) % 60)} min`;
}

function share(percent) {
  return percent === null ? "–" : (percent / 100).toFixed(2);
}

function className(label) {
  return label < 0 ? "no label" : classes[label].name;
}

function axisTitle(text) {
  return { text, font: { size: 13 } };
}

const commonLayout = {
  font: { family: "system-ui, sans-serif", size: 13, color: "#1a1a1a" },
  paper_bgcolor: "#fff",
  plot_bgcolor: "#fff",
  hoverlabel: { bgcolor: "#fff", bordercolor: "#1a1a1a", font: { color: "#1a1a1a" }, align: "left", namelength: 0 },
  hovermode: "closest",
  showlegend: false,
  dragmode: "pan",
};
const commonConfig = {
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  responsive: true,
  scrollZoom: false,
  doubleClick: "reset",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
};

// Draw traces. `meta` is the class of a trace, which disappears when the class is hidden. Axes are linear by
// default, because Plotly would guess their type from the data.
function draw(id, traces, layout) {
  for (const trace of traces) {
    if (typeof trace.meta === "number") trace.visible = !hidden.has(trace.meta);
  }
  plots.set(id, traces);
  // When the width changes, Plotly reads the height of the box.
  element(id).dataset.height = layout.height;
  element(id).style.height = `${layout.height}px`;
  const [xaxis, yaxis] = [layout.xaxis, layout.yaxis].map((axis) => ({ type: "linear", ...axis }));
  return Plotly.react(id, traces, { ...commonLayout, ...layout, xaxis, yaxis }, commonConfig);
}

function showClasses() {
  for (const [id, traces] of plots) {
    Plotly.restyle(id, { visible: traces.map((trace) => typeof trace.meta !== "number" || !hidden.has(trace.meta)) });
  }
}

// Empty a box of details; the text in it is not printed.
function clearDetail(id, words) {
  element(id).replaceChildren(make("p", { class: "screen" }, words));
}

// The fill of the bars of a class.
function fill(label) {
  if (label < 0) return { color: "#ffffff", line: { color: "#8a8a8a", width: 1 } };
  const style = classes[label];
  return {
    color: style.color,
    line: { color: "#ffffff", width: 0.3 },
    pattern: { shape: style.pattern, fgcolor: "#000000", fgopacity: 0.55, size: 6, solidity: 0.2, fillmode: "overlay" },
  };
}

// A small picture of the fill of a class.
function swatch(label) {
  const box = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const [width, height] = [26, 14];
  for (const [name, value] of Object.entries({ width, height, class: "swatch", "aria-hidden": "true" })) {
    box.setAttribute(name, value);
  }
  const style = classes[label];
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "path");
  box.style.background = style.color;
  const lines = [];
  for (let at = -12; at < width + 12; at += 6) {
    if (style.pattern === "/" || style.pattern === "x") lines.push(`M${at},14l14,-14`);
    if (style.pattern === "\\" || style.pattern === "x") lines.push(`M${at},0l14,14`);
    if (style.pattern === "|" || style.pattern === "+") lines.push(`M${at + 3},0v14`);
    if (style.pattern === ".") lines.push(`M${at + 2},4h2M${at + 2},10h2`);
  }
  if (style.pattern === "-" || style.pattern === "+") lines.push("M0,4h26M0,10h26");
  drawn.setAttribute("d", lines.join(""));
  drawn.setAttribute("stroke", "#000000");
  drawn.setAttribute("stroke-opacity", "0.6");
  drawn.setAttribute("stroke-width", style.pattern === "." ? "2" : "1.2");
  box.append(drawn);
  return box;
}

// The index after a key press: next, previous, first or last; null for other keys.
function nextIndex(key, index, n) {
  if (key === "Home") return 0;
  if (key === "End") return n - 1;
  if (key === "ArrowRight") return Math.min(index + 1, n - 1);
  if (key === "ArrowLeft") return Math.max(index - 1, 0);
  return null;
}
