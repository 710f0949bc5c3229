// The days of a participant: labels over time, and given totals above the assigned ones.

const LANES_PER_PAGE = 14;
const SEGMENTS_PER_PAGE = 3000;
const LANE_HEIGHT = 38;

const days = report.timeline && {
  first: [],
  pages: [],
  page: 0,
  items: [],
  chosen: -1,
};

function initDays() {
  const shown = report.timeline;
  let at = 0;
  for (let lane = 0; lane <= shown.days.length; lane++) {
    while (at < shown.lane.length && shown.lane[at] < lane) at++;
    days.first.push(at);
  }
  const select = element("participant");
  shown.participants.forEach((name, index) => select.append(make("option", { value: index }, name || "everybody")));
  select.addEventListener("change", () => chooseParticipant(Number(select.value)));
  element("earlier").addEventListener("click", () => showPage(days.page - 1));
  element("later").addEventListener("click", () => showPage(days.page + 1));
  element("timeline").addEventListener("keydown", stepThroughSegments);
  if (shown.slot) {
    const cut = shown.slot.filter((seconds) => seconds > 0);
    const note = element("timeline-thinned");
    note.textContent =
      `${cut.length} of ${shown.slot.length} days have too many changes to draw: they are cut into slots of ` +
      `${duration(Math.min(...cut))}${Math.max(...cut) > Math.min(...cut) ? ` to ${duration(Math.max(...cut))}` : ""}, ` +
      "and each slot shows the label that most of its windows have.";
    note.hidden = false;
  }
  chooseParticipant(0);
  element("timeline").on("plotly_hover", (event) => showSegment(event.points[0].customdata));
}

function chooseParticipant(index) {
  const shown = report.timeline;
  days.pages = [];
  let page = [];
  let count = 0;
  for (let lane = 0; lane < shown.days.length; lane++) {
    if (shown.participant[lane] !== index) continue;
    const more = days.first[lane + 1] - days.first[lane];
    if (page.length && (page.length === LANES_PER_PAGE || count + more > SEGMENTS_PER_PAGE)) {
      days.pages.push(page);
      page = [];
      count = 0;
    }
    page.push(lane);
    count += more;
  }
  days.pages.push(page);
  showPage(0);
}

function showPage(page) {
  days.page = page;
  days.chosen = -1;
  element("earlier").disabled = page === 0;
  element("later").disabled = page === days.pages.length - 1;
  const lanes = days.pages[page];
  element("page-number").textContent =
    days.pages.length > 1 ? `days ${report.timeline.days[lanes[0]]} to ${report.timeline.days[lanes.at(-1)]}` : "";
  clearDetail("timeline-detail", "No bar is chosen.");
  describePrintout();
  const pieces = piecesInLanes(lanes);
  const several = new Set(pieces.map((piece) => piece.lane)).size < pieces.length;
  element("days").classList.toggle("several", several);
  drawTimeline(lanes);
  // If every day has one bag, totals are drawn beside the days; otherwise below them, at their times.
  if (several) drawTotalsInTime(lanes, pieces);
  else drawTotalsBeside(lanes, pieces);
}

// The pieces of bags in some lanes: a bag that lasts several days has one piece in each of them.
function piecesInLanes(lanes) {
  const all = report.bags.pieces;
  const mine = new Set(lanes);
  return all.lane
    .map((lane, at) => ({ lane, bag: all.bag[at], start: all.start[at], end: all.end[at] }))
    .filter((piece) => mine.has(piece.lane));
}

// On paper nothing can be selected, therefore it names the participant and the days that are printed.
function describePrintout() {
  const people = report.timeline.participants;
  const index = element("participant").selectedIndex;
  const parts = [];
  if (people.length > 1) parts.push(`participant ${people[index]} (${index + 1} of ${people.length})`);
  if (days.pages.length > 1) parts.push(element("page-number").textContent);
  element("days-printed").textContent = parts.length ? `Printed here: ${parts.join("; ")}.` : "";
}

function drawTimeline(lanes) {
  const shown = report.timeline;
  const traces = new Map();
  days.items = [];
  lanes.forEach((lane, row) => {
    for (let at = days.first[lane]; at < days.first[lane + 1]; at++) {
      const label = shown.label[at];
      if (!traces.has(label)) {
        traces.set(label, {
          type: "bar", orientation: "h", meta: label, marker: fill(label), hoverinfo: "text",
          x: [], base: [], y: [], width: [], hovertext: [], customdata: [],
        });
      }
      const trace = traces.get(label);
      days.items.push({ at, row, label, point: trace.x.length });
      trace.x.push(1000 * (shown.end[at] - shown.start[at]));
      trace.base.push(axisTime(shown.start[at]));
      trace.y.push(row);
      trace.width.push(0.8 * (shown.sure[at] === null ? 0.5 : 0.25 + 0.0075 * shown.sure[at]));
      trace.hovertext.push(escaped(describeSegment(at, LONGEST_NAME)));
      trace.customdata.push(at);
    }
  });
  const first = lowest(days.items.map(({ at }) => shown.start[at]));
  const last = highest(days.items.map(({ at }) => shown.end[at]));
  const margin = 0.01 * (last - first);
  const drawn = [...traces.values()].sort((a, b) => a.meta - b.meta);
  days.curves = new Map(drawn.map((trace, curve) => [trace.meta, curve]));
  days.height = 70 + LANE_HEIGHT * Math.max(lanes.length, 2);
  days.rows = [lanes.length - 0.5, -0.5];
  days.axis = {
    type: "date", side: "top", range: [axisTime(first - margin), axisTime(last + margin)], showgrid: true, gridcolor: "#e4e4e4",
    tickformatstops: [
      { dtickrange: [null, 1000], value: "%H:%M:%S.%L" },
      { dtickrange: [1000, 60000], value: "%H:%M:%S" },
      { dtickrange: [60000, null], value: "%H:%M" },
    ],
  };
  draw("timeline", drawn, {
    height: days.height,
    barmode: "overlay",
    margin: { l: 120, r: 10, t: 30, b: 30 },
    xaxis: { ...days.axis },
    yaxis: {
      tickvals: lanes.map((_, row) => row),
      ticktext: lanes.map((lane) => escaped(shown.days[lane])),
      range: days.rows,
      fixedrange: true, showgrid: false, zeroline: false,
    },
  });
}

function describeSegment(at, most = Infinity) {
  const shown = report.timeline;
  const seconds = shown.end[at] - shown.start[at];
  const sure = shown.sure[at] === null ? "" : `, confidence ${share(shown.sure[at])}, at least ${share(shown.lowest[at])}`;
  const windows = `${shown.rows[at].toLocaleString("en")} window${shown.rows[at] === 1 ? "" : "s"}`;
  return `${shortened(className(shown.label[at]), most)}, ${shown.days[shown.lane[at]]}, ${clock(shown.start[at])} to ${clock(shown.end[at])} (${duration(seconds)}), ${windows}${sure}`;
}

function showSegment(at) {
  days.chosen = days.items.findIndex((item) => item.at === at);
  element("timeline-detail").textContent = describeSegment(at);
}

function stepThroughSegments(event) {
  const items = days.items.filter((item) => !hidden.has(item.label));
  if (!items.length) return;
  let index = items.indexOf(days.items[days.chosen]);
  const up = event.key === "ArrowUp";
  if (up || event.key === "ArrowDown") {
    index = index < 0 ? 0 : nearestInLane(items, index, up ? -1 : 1);
  } else {
    index = nextIndex(event.key, index, items.length);
  }
  if (index === null) return;
  event.preventDefault();
  const item = items[index];
  outline(item);
  Plotly.Fx.hover("timeline", [{ curveNumber: days.curves.get(item.label), pointNumber: item.point }]);
  showSegment(item.at);
}

// Draw a frame around the chosen segment.
function outline({ at, row }) {
  const [start, end] = [report.timeline.start[at], report.timeline.end[at]];
  const line = { color: "#000000", width: 2.5 };
  Plotly.relayout("timeline", {
    shapes: [{ type: "rect", x0: axisTime(start), x1: axisTime(end), y0: row - 0.45, y1: row + 0.45, line }],
  });
}

// The segment with the nearest start in the lane above or below.
function nearestInLane(items, index, step) {
  const start = report.timeline.start;
  let best = null;
  items.forEach((item, other) => {
    if (item.row !== items[index].row + step) return;
    const away = Math.abs(start[item.at] - start[items[index].at]);
    if (best === null || away < Math.abs(start[items[best].at] - start[items[index].at])) best = other;
  });
  return best;
}

// Totals to draw. All intervals are cut at the same fraction, so that the totals of a bag add up to its rows.
function drawnTotals(bags, k) {
  const lower = bags.lower[k];
  const upper = bags.upper[k].map((bound) => Math.min(bound === null ? bags.rows[k] : bound, bags.rows[k]));
  const low = lower.reduce((a, b) => a + b, 0);
  const high = upper.reduce((a, b) => a + b, 0);
  const fraction = high > low ? Math.min(Math.max((bags.rows[k] - low) / (high - low), 0), 1) : 0;
  return lower.map((bound, label) => bound + fraction * (upper[label] - bound));
}

function amount(mass) {
  const hours = report.bags.hours;
  if (hours === null) return `${+mass.toFixed(1)} rows`;
  return hours * mass < 2 ? `${+(60 * hours * mass).toFixed(1)} min` : `${+(hours * mass).toFixed(2)} h`;
}

function describeGiven(bags, k, label) {
  const [low, high] = [bags.lower[k][label], bags.upper[k][label]];
  if (high === null) return `at least ${amount(low)}`;
  return high - low < 0.01 ? amount(low) : `${amount(low)} to ${amount(high)}`;
}

function describeEpisodes(bags, k, label) {
  const n = bags.episodes[k][label];
  const given = bags.said ? bags.said[k][label] : null;
  return `${n} episode${n === 1 ? "" : "s"}${given === null ? "" : ` (said ${given})`}`;
}

// The text beside the bars of a class in a bag, ready for Plotly.
function describeTotals(k, label) {
  const bags = report.bags;
  const totals = `${shortened(bags.names[k], LONGEST_NAME)}, ${shortened(classes[label].name, LONGEST_NAME)}: given ${describeGiven(bags, k, label)}, assigned ${amount(bags.assigned[k][label])}`;
  return `${escaped(totals)}<br>${escaped(describeEpisodes(bags, k, label))}`;
}

function drawTotalsInTime(lanes, all) {
  const bags = report.bags;
  const shown = all.slice(0, Math.max(1, Math.floor(SEGMENTS_PER_PAGE / classes.length)));
  const traces = classes.map((_, label) => ({
    type: "bar", meta: label, marker: fill(label), hoverinfo: "text", offset: 0,
    x: [], width: [], base: [], y: [], hovertext: [],
  }));
  shown.forEach(({ bag: k, lane, start, end }) => {
    const row = lanes.indexOf(lane);
    let [given, assigned] = [row - 0.44, row + 0.03];
    drawnTotals(bags, k).forEach((mass, label) => {
      const heights = [mass, bags.assigned[k][label]].map((one) => (0.41 * one) / Math.max(bags.rows[k], 1));
      for (const [height, base] of [[heights[0], given], [heights[1], assigned]]) {
        if (height <= 0) continue;
        traces[label].x.push(axisTime(start));
        traces[label].width.push(1000 * (end - start));
        traces[label].base.push(base);
        traces[label].y.push(height);
        traces[label].hovertext.push(describeTotals(k, label));
      }
      given += heights[0];
      assigned += heights[1];
    });
  });
  element("totals-title").textContent =
    `Given above assigned, at the time of every ${report.words.bag}` +
    (shown.length < all.length ? `: the first ${shown.length} of ${all.length} ${report.words.bags}` : "");
  const dayOf = (lane) => (lanes.length > 1 ? `${escaped(report.timeline.days[lane])}<br>` : "");
  draw("totals", traces, {
    height: 70 + 3 * LANE_HEIGHT * lanes.length,
    barmode: "overlay",
    margin: { l: 120, r: 10, t: 30, b: 30 },
    xaxis: { ...days.axis },
    yaxis: {
      tickvals: lanes.flatMap((_, row) => [row - 0.235, row + 0.235]),
      ticktext: lanes.flatMap((lane) => [`${dayOf(lane)}given`, "assigned"]),
      range: days.rows,
      fixedrange: true, showgrid: false, zeroline: false,
    },
  });
}

function drawTotalsBeside(lanes, all) {
  const bags = report.bags;
  const whole = all.some(({ bag }) => (bags.hours || 0) * bags.rows[bag] >= 2);
  const unit = bags.hours === null ? 1 : whole ? bags.hours : 60 * bags.hours;
  const traces = classes.map((_, label) => ({
    type: "bar", orientation: "h", meta: label, marker: fill(label), hoverinfo: "text",
    x: [], base: [], y: [], width: 0.36, hovertext: [],
  }));
  const bagOfLane = new Map(all.map(({ bag, lane }) => [lane, bag]));
  const begun = new Set();
  const words = [];
  lanes.forEach((lane, row) => {
    const k = bagOfLane.get(lane);
    if (k === undefined) words.push([row, bags.pieces.unlisted.includes(lane) ? "not drawn" : "no totals"]);
    else if (begun.has(k)) words.push([row, `the ${report.words.bag} above goes on`]);
    if (k === undefined || begun.has(k)) return;
    begun.add(k);
    let [given, assigned] = [0, 0];
    drawnTotals(bags, k).forEach((mass, label) => {
      const about = describeTotals(k, label);
      for (const [value, base, y] of [[mass, given, row - 0.2], [bags.assigned[k][label], assigned, row + 0.2]]) {
        if (value <= 0) continue;
        traces[label].x.push(unit * value);
        traces[label].base.push(unit * base);
        traces[label].y.push(y);
        traces[label].hovertext.push(about);
      }
      given += mass;
      assigned += bags.assigned[k][label];
    });
  });
  const title = bags.hours === null ? "rows" : whole ? "hours" : "minutes";
  element("totals-title").textContent = `Given above assigned, ${title}`;
  draw("totals", traces, {
    height: days.height,
    barmode: "overlay",
    annotations: words.map(([row, text]) => ({
      x: 0, y: row, xanchor: "left", text, showarrow: false, font: { color: "#595959" },
    })),
    margin: { l: 10, r: 10, t: 30, b: 30 },
    xaxis: { side: "top", gridcolor: "#e4e4e4", zeroline: false, rangemode: "tozero" },
    yaxis: { showticklabels: false, range: days.rows, fixedrange: true, showgrid: false, zeroline: false },
  });
}
