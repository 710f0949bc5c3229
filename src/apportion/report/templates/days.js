// The days of a participant: labels over time, and given totals above assigned ones.

const LANES_A_PAGE = 14;
const SEGMENTS_A_PAGE = 3000;
const LANE_HEIGHT = 38;

const days = report.timeline && {
  first: [],
  pages: [],
  page: 0,
  items: [],
  chosen: -1,
};

function startDays() {
  const shown = report.timeline;
  let at = 0;
  for (let lane = 0; lane <= shown.days.length; lane++) {
    while (at < shown.lane.length && shown.lane[at] < lane) at++;
    days.first.push(at);
  }
  const select = element("participant");
  shown.participants.forEach((name, place) => select.append(make("option", { value: place }, name || "everybody")));
  select.addEventListener("change", () => chooseParticipant(Number(select.value)));
  element("earlier").addEventListener("click", () => turnTo(days.page - 1));
  element("later").addEventListener("click", () => turnTo(days.page + 1));
  element("timeline").addEventListener("keydown", stepThroughDays);
  if (shown.slot) {
    const cut = shown.slot.filter((seconds) => seconds > 0);
    const note = element("timeline-thinned");
    note.textContent =
      `${cut.length} of ${shown.slot.length} days have too many changes to draw: they are cut into slots of ` +
      `${lasting(Math.min(...cut))}${Math.max(...cut) > Math.min(...cut) ? ` to ${lasting(Math.max(...cut))}` : ""}, ` +
      "and each slot shows the label that most of its windows have.";
    note.hidden = false;
  }
  chooseParticipant(0);
  element("timeline").on("plotly_hover", (event) => tellSegment(event.points[0].customdata));
}

function chooseParticipant(place) {
  const shown = report.timeline;
  days.pages = [];
  let page = [];
  let count = 0;
  for (let lane = 0; lane < shown.days.length; lane++) {
    if (shown.participant[lane] !== place) continue;
    const more = days.first[lane + 1] - days.first[lane];
    if (page.length && (page.length === LANES_A_PAGE || count + more > SEGMENTS_A_PAGE)) {
      days.pages.push(page);
      page = [];
      count = 0;
    }
    page.push(lane);
    count += more;
  }
  days.pages.push(page);
  turnTo(0);
}

function turnTo(page) {
  days.page = page;
  days.chosen = -1;
  element("earlier").disabled = page === 0;
  element("later").disabled = page === days.pages.length - 1;
  const lanes = days.pages[page];
  element("page-number").textContent =
    days.pages.length > 1 ? `days ${report.timeline.days[lanes[0]]} to ${report.timeline.days[lanes.at(-1)]}` : "";
  tellNothing("timeline-detail", "No bar is chosen.");
  tellPaper();
  const pieces = piecesOf(lanes);
  const several = new Set(pieces.map((piece) => piece.lane)).size < pieces.length;
  element("days").classList.toggle("several", several);
  drawTimeline(lanes);
  // Totals stand beside the days where a day has one bag, below them, at their times, else.
  if (several) drawTotalsInTime(lanes, pieces);
  else drawTotalsBeside(lanes, pieces);
}

// What bags have of some lanes: a bag that lasts for days has a piece in each.
function piecesOf(lanes) {
  const all = report.bags.pieces;
  const mine = new Set(lanes);
  return all.lane
    .map((lane, at) => ({ lane, bag: all.bag[at], start: all.start[at], end: all.end[at] }))
    .filter((piece) => mine.has(piece.lane));
}

// Paper has no choice of participants and days: it says which are on it.
function tellPaper() {
  const people = report.timeline.participants;
  const place = element("participant").selectedIndex;
  const parts = [];
  if (people.length > 1) parts.push(`participant ${people[place]} (${place + 1} of ${people.length})`);
  if (days.pages.length > 1) parts.push(element("page-number").textContent);
  element("days-printed").textContent = parts.length ? `Printed here: ${parts.join("; ")}.` : "";
}

function drawTimeline(lanes) {
  const shown = report.timeline;
  const traces = new Map();
  days.items = [];
  lanes.forEach((lane, row) => {
    for (let at = days.first[lane]; at < days.first[lane + 1]; at++) {
      const place = shown.label[at];
      if (!traces.has(place)) {
        traces.set(place, {
          type: "bar", orientation: "h", meta: place, marker: fill(place), hoverinfo: "text",
          x: [], base: [], y: [], width: [], hovertext: [], customdata: [],
        });
      }
      const trace = traces.get(place);
      days.items.push({ at, row, place, point: trace.x.length });
      trace.x.push(1000 * (shown.end[at] - shown.start[at]));
      trace.base.push(moment(shown.start[at]));
      trace.y.push(row);
      trace.width.push(0.8 * (shown.sure[at] === null ? 0.5 : 0.25 + 0.0075 * shown.sure[at]));
      trace.hovertext.push(plain(aboutSegment(at, MOST_SIGNS)));
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
    type: "date", side: "top", range: [moment(first - margin), moment(last + margin)], showgrid: true, gridcolor: "#e4e4e4",
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
      ticktext: lanes.map((lane) => plain(shown.days[lane])),
      range: days.rows,
      fixedrange: true, showgrid: false, zeroline: false,
    },
  });
}

function aboutSegment(at, most = Infinity) {
  const shown = report.timeline;
  const seconds = shown.end[at] - shown.start[at];
  const sure = shown.sure[at] === null ? "" : `, confidence ${share(shown.sure[at])}, at least ${share(shown.lowest[at])}`;
  const windows = `${shown.rows[at].toLocaleString("en")} window${shown.rows[at] === 1 ? "" : "s"}`;
  return `${shortened(className(shown.label[at]), most)}, ${shown.days[shown.lane[at]]}, ${clock(shown.start[at])} to ${clock(shown.end[at])} (${lasting(seconds)}), ${windows}${sure}`;
}

function tellSegment(at) {
  days.chosen = days.items.findIndex((item) => item.at === at);
  element("timeline-detail").textContent = aboutSegment(at);
}

function stepThroughDays(event) {
  const items = days.items.filter((item) => !hidden.has(item.place));
  if (!items.length) return;
  let place = items.indexOf(days.items[days.chosen]);
  const up = event.key === "ArrowUp";
  if (up || event.key === "ArrowDown") {
    place = place < 0 ? 0 : inNextLane(items, place, up ? -1 : 1);
  } else {
    place = stepped(event.key, place, items.length);
  }
  if (place === null) return;
  event.preventDefault();
  const item = items[place];
  outline(item);
  Plotly.Fx.hover("timeline", [{ curveNumber: days.curves.get(item.place), pointNumber: item.point }]);
  tellSegment(item.at);
}

// A frame around the chosen segment.
function outline({ at, row }) {
  const [start, end] = [report.timeline.start[at], report.timeline.end[at]];
  const line = { color: "#000000", width: 2.5 };
  Plotly.relayout("timeline", {
    shapes: [{ type: "rect", x0: moment(start), x1: moment(end), y0: row - 0.45, y1: row + 0.45, line }],
  });
}

// The segment that lies nearest in the lane above or below.
function inNextLane(items, place, step) {
  const start = report.timeline.start;
  let best = null;
  items.forEach((item, other) => {
    if (item.row !== items[place].row + step) return;
    const away = Math.abs(start[item.at] - start[items[place].at]);
    if (best === null || away < Math.abs(start[items[best].at] - start[items[place].at])) best = other;
  });
  return best;
}

// Totals that lie between bounds are drawn at the same height between them, so that they sum up.
function between(bags, k) {
  const lower = bags.lower[k];
  const upper = bags.upper[k].map((one) => Math.min(one === null ? bags.rows[k] : one, bags.rows[k]));
  const low = lower.reduce((a, b) => a + b, 0);
  const high = upper.reduce((a, b) => a + b, 0);
  const part = high > low ? Math.min(Math.max((bags.rows[k] - low) / (high - low), 0), 1) : 0;
  return lower.map((one, place) => one + part * (upper[place] - one));
}

function amount(mass) {
  const hours = report.bags.hours;
  if (hours === null) return `${+mass.toFixed(1)} rows`;
  return hours * mass < 2 ? `${+(60 * hours * mass).toFixed(1)} min` : `${+(hours * mass).toFixed(2)} h`;
}

function givenWords(bags, k, place) {
  const [low, high] = [bags.lower[k][place], bags.upper[k][place]];
  if (high === null) return `at least ${amount(low)}`;
  return high - low < 0.01 ? amount(low) : `${amount(low)} to ${amount(high)}`;
}

function totalsWords(k, place) {
  const bags = report.bags;
  return `${shortened(bags.names[k], MOST_SIGNS)}, ${shortened(classes[place].name, MOST_SIGNS)}: given ${givenWords(bags, k, place)}, assigned ${amount(bags.assigned[k][place])}`;
}

function drawTotalsInTime(lanes, all) {
  const bags = report.bags;
  const shown = all.slice(0, Math.max(1, Math.floor(SEGMENTS_A_PAGE / classes.length)));
  const traces = classes.map((_, place) => ({
    type: "bar", meta: place, marker: fill(place), hoverinfo: "text", offset: 0,
    x: [], width: [], base: [], y: [], hovertext: [],
  }));
  shown.forEach(({ bag: k, lane, start, end }) => {
    const row = lanes.indexOf(lane);
    let [given, assigned] = [row - 0.44, row + 0.03];
    between(bags, k).forEach((mass, place) => {
      const heights = [mass, bags.assigned[k][place]].map((one) => (0.41 * one) / Math.max(bags.rows[k], 1));
      for (const [height, base] of [[heights[0], given], [heights[1], assigned]]) {
        if (height <= 0) continue;
        traces[place].x.push(moment(start));
        traces[place].width.push(1000 * (end - start));
        traces[place].base.push(base);
        traces[place].y.push(height);
        traces[place].hovertext.push(plain(totalsWords(k, place)));
      }
      given += heights[0];
      assigned += heights[1];
    });
  });
  element("totals-title").textContent =
    `Given above assigned, at the time of every ${report.words.bag}` +
    (shown.length < all.length ? `: the first ${shown.length} of ${all.length} ${report.words.bags}` : "");
  const dayOf = (lane) => (lanes.length > 1 ? `${plain(report.timeline.days[lane])}<br>` : "");
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
  const traces = classes.map((_, place) => ({
    type: "bar", orientation: "h", meta: place, marker: fill(place), hoverinfo: "text",
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
    between(bags, k).forEach((mass, place) => {
      const about = plain(totalsWords(k, place));
      for (const [value, base, y] of [[mass, given, row - 0.2], [bags.assigned[k][place], assigned, row + 0.2]]) {
        if (value <= 0) continue;
        traces[place].x.push(unit * value);
        traces[place].base.push(unit * base);
        traces[place].y.push(y);
        traces[place].hovertext.push(about);
      }
      given += mass;
      assigned += bags.assigned[k][place];
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
