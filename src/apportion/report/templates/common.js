"use strict";
// Shared by the report and the studio: elements, formatting, the fill of a class, and keys.

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

function duration(seconds) {
  if (seconds < 120) return `${+seconds.toFixed(3)} s`;
  if (seconds < 7200) return `${+(seconds / 60).toFixed(1)} min`;
  return `${Math.floor(seconds / 3600)} h ${twoDigits(Math.round((seconds % 3600) / 60) % 60)} min`;
}

function share(percent) {
  return percent === null ? "–" : (percent / 100).toFixed(2);
}

// Create an element of SVG with attributes and children.
function makeSvg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The lines of a pattern over a box, as Plotly's patterns of the same names.
function patternPath(pattern, width, height) {
  const lines = [];
  for (let at = -12; at < width + 12; at += 6) {
    if (pattern === "/" || pattern === "x") lines.push(`M${at},${height}l${height},${-height}`);
    if (pattern === "\\" || pattern === "x") lines.push(`M${at},0l${height},${height}`);
    if (pattern === "|" || pattern === "+") lines.push(`M${at + 3},0v${height}`);
    if (pattern === ".") lines.push(`M${at + 2},4h2M${at + 2},10h2`);
  }
  if (pattern === "-" || pattern === "+") lines.push(`M0,4h${width}M0,10h${width}`);
  return makeSvg("path", {
    d: lines.join(""), stroke: "#000000", "stroke-opacity": 0.6, "stroke-width": pattern === "." ? 2 : 1.2, fill: "none",
  });
}

// A small picture of the fill of a class.
function swatch(style) {
  const [width, height] = [26, 14];
  const box = makeSvg("svg", { width, height, class: "swatch", "aria-hidden": "true" }, patternPath(style.pattern, width, height));
  box.style.background = style.color;
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
