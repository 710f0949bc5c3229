// Shared by all sections of the page: data, plots, and the hidden classes.

const report = JSON.parse(document.getElementById("data").textContent);
const classes = report.classes;
const LONGEST_NAME = 60; // characters of a name in a hover text
const hidden = new Set();
const plots = new Map();

// Escape a text for Plotly, which would read it as HTML.
function escaped(text) {
  return String(text)
    .replace(/[\u0000-\u001f]+/g, " ")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;");
}

// Seconds after midnight as a value on a time axis. It must be text: Plotly reads the numbers 10 to 99 and
// 1000 to 9999 as years, and all others as milliseconds in the browser's time zone.
function axisTime(seconds) {
  return new Date(Math.round(1000 * seconds)).toISOString();
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
