// The map of the rows, and for each row its most similar rows.

const atlas = { map: 0, items: [], chosen: -1 };

function initMap() {
  if (!report.maps.length) return;
  const select = element("map-choice");
  report.maps.forEach((one, index) => select.append(make("option", { value: index }, one.name || "all rows")));
  select.addEventListener("change", () => chooseMap(Number(select.value)));
  element("map-plot").addEventListener("keydown", (event) => {
    const items = atlas.items.filter((item) => !hidden.has(item.label));
    const index = items.length ? nextIndex(event.key, items.indexOf(atlas.items[atlas.chosen]), items.length) : null;
    if (index === null) return;
    event.preventDefault();
    chooseRow(items[index]);
  });
  element("find-row").addEventListener("click", findRow);
  element("row-name").addEventListener("keydown", (event) => {
    if (event.key === "Enter") findRow();
  });
  chooseMap(0);
  element("map-plot").on("plotly_hover", (event) => {
    const at = event.points[0].customdata;
    atlas.chosen = atlas.items.findIndex((item) => item.at === at);
    showRow(at);
  });
}

function chooseMap(index) {
  atlas.map = index;
  atlas.items = [];
  atlas.chosen = -1;
  const shown = report.maps[index];
  const traces = [];
  for (let label = -1; label < classes.length; label++) {
    const style = label < 0 ? { color: "#ffffff", symbol: "circle-open" } : classes[label];
    const rows = shown.label.map((_, at) => at).filter((at) => shown.label[at] === label);
    if (!rows.length) continue;
    rows.forEach((at, point) => atlas.items.push({ at, label, curve: traces.length, point }));
    traces.push({
      type: "scatter", mode: "markers", meta: label, hoverinfo: "text",
      x: rows.map((at) => shown.x[at]),
      y: rows.map((at) => shown.y[at]),
      customdata: rows,
      hovertext: rows.map((at) => hoverText(shown, at)),
      marker: { symbol: style.symbol, color: style.color, size: 7, line: { color: "#1a1a1a", width: 0.5 }, opacity: 0.85 },
    });
  }
  draw("map-plot", traces, {
    height: 560,
    margin: { l: 10, r: 10, t: 10, b: 10 },
    xaxis: { visible: false },
    yaxis: { visible: false, scaleanchor: shown.how.startsWith("t-SNE") ? "x" : undefined },
  });
  const total = classes.reduce((sum, one) => sum + one.rows, 0);
  const drawn = shown.x.length.toLocaleString("en");
  element("map-how").textContent =
    (report.maps.length > 1 ? `Map of ${shown.name} (${index + 1} of ${report.maps.length}). ` : "") +
    `Places: ${shown.how}. ${drawn} rows are drawn` +
    (report.maps.length === 1 && shown.x.length < total ? `, of ${total.toLocaleString("en")} labeled ones, chosen by a hash of their features.` : ".");
  clearDetail("map-detail", "No row is chosen.");
}

function hoverText(shown, at) {
  const lines = [`row ${shown.row[at]}: ${className(shown.label[at])} (${ownShare(shown, at)})`];
  if (shown.bag[at] !== null) lines.push(`${report.words.bag} ${shown.bag[at]}`);
  neighborsOf(shown, at).forEach((one) => {
    lines.push(`${one.share} ${one.name}, row ${one.row}${one.bag === null ? "" : `, ${report.words.bag} ${one.bag}`}`);
  });
  return lines.map((line) => escaped(shortened(line, 80))).join("<br>");
}

function ownShare(shown, at) {
  return shown.label[at] < 0 ? "–" : share(shown.masses[at][shown.label[at]]);
}

function neighborsOf(shown, at) {
  return shown.near[at]
    .map((row, j) => ({ row, label: shown.nearLabel[at][j], bag: shown.nearBag[at][j], share: share(shown.nearShare[at][j]) }))
    .filter((one) => one.label > -2)
    .map((one) => ({ ...one, name: className(one.label) }));
}

function showRow(at) {
  const shown = report.maps[atlas.map];
  const masses = shown.masses[at]
    .map((percent, label) => [percent, classes[label].name])
    .filter(([percent]) => percent >= 5)
    .sort((a, b) => b[0] - a[0])
    .map(([percent, name]) => `${name} ${share(percent)}`);
  const bag = shown.bag[at] === null ? `in no ${report.words.bag}` : `of ${report.words.bag} ${shown.bag[at]}`;
  const near = neighborsOf(shown, at);
  const agree = near.filter((one) => one.label === shown.label[at]).length;
  const body = make("tbody", {}, ...near.map((one) =>
    make("tr", {}, make("td", { class: "words" }, String(one.row)), make("td", { class: "words" }, one.name),
      make("td", { class: "words" }, one.bag ?? "–"), make("td", {}, one.share))));
  const head = make("thead", {}, make("tr", {}, ...["Similar row", "Label", capitalized(report.words.bag), "Similarity"].map((text, index) =>
    make("th", { scope: "col", class: index < 3 ? "words" : "number" }, text))));
  const reason = shown.reason[at] ? ` Reason codes: ${shown.reason[at].replaceAll(";", ", ")}.` : "";
  element("map-detail").replaceChildren(
    make("p", {}, make("strong", {}, `Row ${shown.row[at]}: ${className(shown.label[at])}`), `, ${bag}. ${report.calibrated ? "Probabilities" : "Soft label"}: ${masses.join(", ") || "–"}. `,
      near.length ? `${agree} of its ${near.length} most similar rows have the same label.` : "It has no similar row.", reason),
    ...(near.length ? [make("table", {}, head, body)] : []),
  );
}

function chooseRow(item) {
  atlas.chosen = atlas.items.indexOf(item);
  Plotly.Fx.hover("map-plot", [{ curveNumber: item.curve, pointNumber: item.point }]);
  showRow(item.at);
}

function findRow() {
  const name = element("row-name").value.trim();
  const shown = report.maps[atlas.map];
  const item = atlas.items.find((one) => String(shown.row[one.at]).trim() === name);
  if (item) chooseRow(item);
  else element("map-detail").replaceChildren(make("p", {}, `Row ${name || "…"} is not on this map.`));
}
