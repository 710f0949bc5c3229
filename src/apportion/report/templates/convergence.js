// The energy of each run above its minimum.

function initConvergence() {
  const box = element("energy-plot");
  if (!report.runs.length) {
    box?.remove();
    return;
  }
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const traces = report.runs.map((run, index) => {
    const lowest = Math.min(...run.energies.map((pair) => pair[1]));
    const above = run.energies.filter((pair) => pair[1] > lowest);
    return {
      type: "scatter", mode: "lines", name: escaped(shortened(run.name || "energy", 30)),
      x: above.map((pair) => pair[0]), y: above.map((pair) => pair[1] - lowest),
      line: { color: "#1a1a1a", width: 1.5, dash: dashes[index % dashes.length] },
    };
  });
  draw("energy-plot", traces, {
    height: 300,
    margin: { l: 90, r: 20, t: 10, b: 45 },
    showlegend: traces.length > 1,
    xaxis: { title: axisTitle("iteration"), gridcolor: "#eeeeee", zeroline: false },
    yaxis: { type: "log", title: axisTitle("energy above its lowest"), gridcolor: "#eeeeee", exponentformat: "power", dtick: traces.length ? undefined : 1 },
  });
}
