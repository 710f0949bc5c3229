// Predicted against given totals of held-out bags, with one marker per bag and class.

function initAccuracy() {
  const select = element("accuracy-choice");
  if (select) {
    report.heldOut.forEach((one, index) => select.append(make("option", { value: index }, one.name)));
    select.addEventListener("change", () => chooseHeldOut(Number(select.value)));
  }
  if (report.heldOut.length) chooseHeldOut(0);
}

function chooseHeldOut(index) {
  for (const block of document.querySelectorAll(".of-group")) block.hidden = Number(block.dataset.group) !== index;
  if (element("calibration-plot")) drawCalibration(report.heldOut[index]);
}

function drawCalibration(shown) {
  const traces = classes.map((style, label) => calibrationTrace(shown, style, label));
  const most = Math.max(1, highest(traces.flatMap((trace) => [...trace.x, ...trace.y])));
  traces.unshift({ type: "scatter", mode: "lines", x: [0, most], y: [0, most], line: { color: "#595959", width: 1 }, hoverinfo: "skip" });
  draw("calibration-plot", traces, {
    height: 420,
    margin: { l: 60, r: 20, t: 10, b: 45 },
    xaxis: { title: axisTitle("given total (rows)"), rangemode: "tozero", gridcolor: "#eeeeee", zeroline: false },
    yaxis: { title: axisTitle("predicted total (rows)"), rangemode: "tozero", gridcolor: "#eeeeee", zeroline: false },
  });
  const drawn = shown.bags.length;
  element("calibration-thinned")?.remove();
  if (drawn < shown.n) {
    const words = `The plot shows ${drawn.toLocaleString("en")} of ${shown.n.toLocaleString("en")} ${report.words.bags}, spread evenly.`;
    element("calibration-plot").after(make("p", { class: "note", id: "calibration-thinned" }, words));
  }
}

// A mark lies at the given total, or at the end of its interval that is nearest to the predicted one.
function calibrationTrace(shown, style, label) {
  const bars = { type: "data", symmetric: false, thickness: 0.8, width: 0, color: style.color };
  const trace = {
    type: "scatter", mode: "markers", meta: label, hoverinfo: "text", x: [], y: [], hovertext: [],
    error_x: { ...bars, array: [], arrayminus: [] },
    error_y: { ...bars, array: [], arrayminus: [] },
    marker: { symbol: style.symbol, size: 8, color: style.color, line: { color: "#1a1a1a", width: 0.6 }, opacity: 0.85 },
  };
  shown.bags.forEach((name, k) => {
    const predicted = shown.predicted[k][label];
    if (predicted === null) return;
    const [low, high, deviation] = [shown.lower[k][label], shown.upper[k][label], shown.deviation[k][label]];
    const given = Math.min(Math.max(predicted, low), high);
    trace.x.push(given);
    trace.y.push(predicted);
    trace.error_x.array.push(high - given);
    trace.error_x.arrayminus.push(given - low);
    trace.error_y.array.push(2 * deviation);
    trace.error_y.arrayminus.push(Math.min(2 * deviation, predicted));
    const span = high - low < 0.01 ? `${low}` : `${low} to ${high}`;
    trace.hovertext.push(escaped(`${shortened(name, LONGEST_NAME)}, ${shortened(style.name, LONGEST_NAME)}: given ${span}, predicted ${predicted} ± ${deviation}`));
  });
  return trace;
}
