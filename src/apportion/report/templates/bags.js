// Given against assigned rows, with one marker per bag and class, and sortable tables.

const MOST_MARKS = 5000;

function initBags() {
  const bags = report.bags;
  if (!element("bag-plot")) return;
  const n = Math.min(bags.names.length, Math.floor(MOST_MARKS / classes.length));
  const most = Math.max(1, ...bags.upper.slice(0, n).flat(), ...bags.assigned.slice(0, n).flat());
  const traces = [
    { type: "scatter", mode: "lines", x: [0, most], y: [0, most], line: { color: "#8a8a8a", width: 1 }, hoverinfo: "skip" },
  ];
  classes.forEach((style, label) => {
    const trace = {
      type: "scatter", mode: "markers", meta: label, hoverinfo: "text", x: [], y: [], hovertext: [],
      error_x: { type: "data", symmetric: false, array: [], arrayminus: [], thickness: 0.8, width: 2, color: style.color },
      marker: { symbol: style.symbol, size: 8, color: style.color, line: { color: "#1a1a1a", width: 0.6 }, opacity: 0.85 },
    };
    for (let k = 0; k < n; k++) {
      const [low, high] = [bags.lower[k][label], bags.upper[k][label] ?? bags.rows[k]];
      const given = Math.min(Math.max(bags.assigned[k][label], low), high);
      trace.x.push(given);
      trace.y.push(bags.assigned[k][label]);
      trace.error_x.array.push(high - given);
      trace.error_x.arrayminus.push(given - low);
      const span = high - low < 0.01 ? `${low}` : `${low} to ${high}`;
      trace.hovertext.push(escaped(`${shortened(bags.names[k], LONGEST_NAME)}, ${shortened(style.name, LONGEST_NAME)}: given ${span}, assigned ${bags.assigned[k][label]}`));
    }
    traces.push(trace);
  });
  draw("bag-plot", traces, {
    height: 380,
    margin: { l: 60, r: 20, t: 10, b: 45 },
    xaxis: { title: axisTitle("given rows (bars: allowed)"), rangemode: "tozero", gridcolor: "#eeeeee", zeroline: false },
    yaxis: { title: axisTitle("assigned rows"), rangemode: "tozero", gridcolor: "#eeeeee", zeroline: false },
  });
  if (n < bags.n) {
    const words = `The plot shows ${n.toLocaleString("en")} of ${bags.n.toLocaleString("en")} ${report.words.bags}.`;
    element("bag-plot").after(make("p", { class: "note" }, words));
  }
}

function initTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("thead button").forEach((button, column) => {
      button.addEventListener("click", () => sortTable(table, column));
    });
  }
}

function sortTable(table, column) {
  const heading = table.querySelectorAll("thead th")[column];
  const descending = heading.getAttribute("aria-sort") === "ascending";
  const body = table.tBodies[0];
  const value = (line) => {
    const cell = line.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const compare = (a, b) =>
    typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
  const lines = [...body.rows].sort((a, b) => compare(value(a), value(b)));
  body.append(...(descending ? lines.reverse() : lines));
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
}
