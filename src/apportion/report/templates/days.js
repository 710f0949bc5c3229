// The days of a participant: labels over time, and given totals above assigned ones.

const LANES_A_PAGE = 14;
const SEGMENTS_A_PAGE = 3000;
const BAGS_BESIDE = 40;
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
  element("timeline-detail").textContent = "";
  drawTimeline(lanes);
  drawTotals(lanes);
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
      trace.base.push(1000 * shown.start[at]);
      trace.y.push(row);
      trace.width.push(0.8 * (shown.sure[at] === null ? 0.5 : 0.25 + 0.0075 * shown.sure[at]));
      trace.hovertext.push(plain(aboutSegment(at)));
      trace.customdata.push(at);
    }
  });
  const drawn = [...traces.values()].sort((a, b) => a.meta - b.meta);
  days.curves = new Map(drawn.map((trace, curve) => [trace.meta, curve]));
  draw("timeline", drawn, {
    height: 70 + LANE_HEIGHT * Math.max(lanes.length, 2),
    barmode: "overlay",
    margin: { l: 120, r: 10, t: 30, b: 30 },
    xaxis: {
      type: "date", side: "top", showgrid: true, gridcolor: "#e4e4e4",
      tickformatstops: [
        { dtickrange: [null, 1000], value: "%H:%M:%S.%L" },
        { dtickrange: [1000, 60000], value: "%H:%M:%S" },
        { dtickrange: [60000, null], value: "%H:%M" },
      ],
    },
    yaxis: {
      tickvals: lanes.map((_, row) => row),
      ticktext: lanes.map((lane) => plain(shown.days[lane])),
      range: [Math.max(lanes.length, 2) - 0.5, -0.5],
      fixedrange: true, showgrid: false, zeroline: false,
    },
  });
}

function aboutSegment(at) {
  const shown = report.timeline;
  const seconds = shown.end[at] - shown.start[at];
  const sure = shown.sure[at] === null ? "" : `, confidence ${share(shown.sure[at])}, at least ${share(shown.lowest[at])}`;
  const windows = `${shown.rows[at].toLocaleString("en")} window${shown.rows[at] === 1 ? "" : "s"}`;
  return `${className(shown.label[at])}, ${shown.days[shown.lane[at]]}, ${clock(shown.start[at])} to ${clock(shown.end[at])} (${lasting(seconds)}), ${windows}${sure}`;
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
    place = inNextLane(items, Math.max(place, 0), up ? -1 : 1);
  } else {
    place = stepped(event.key, place, items.length);
  }
  if (place === null) return;
  event.preventDefault();
  const item = items[place];
  Plotly.Fx.hover("timeline", [{ curveNumber: days.curves.get(item.place), pointNumber: item.point }]);
  tellSegment(item.at);
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

function drawTotals(lanes) {
  const bags = report.bags;
  const mine = new Set(lanes);
  const all = bags.names.map((_, k) => k).filter((k) => mine.has(bags.lane[k]));
  const shown = all.slice(0, BAGS_BESIDE);
  const whole = shown.some((k) => (bags.hours || 0) * bags.rows[k] >= 2);
  const unit = bags.hours === null ? 1 : whole ? bags.hours : 60 * bags.hours;
  const traces = classes.map((_, place) => ({
    type: "bar", orientation: "h", meta: place, marker: fill(place), hoverinfo: "text",
    x: [], base: [], y: [], width: 0.36, hovertext: [],
  }));
  const lanesOfBags = shown.map((k) => bags.lane[k]);
  const beside = new Set(lanesOfBags).size === shown.length;
  const rows = beside ? lanesOfBags.map((lane) => lanes.indexOf(lane)) : shown.map((_, row) => row);
  const n = Math.max(beside ? lanes.length : shown.length, 2);
  shown.forEach((k, at) => {
    const row = rows[at];
    let [given, assigned] = [0, 0];
    between(bags, k).forEach((mass, place) => {
      const words = `${bags.names[k]}, ${classes[place].name}: given ${givenWords(bags, k, place)}, assigned ${amount(bags.assigned[k][place])}`;
      for (const [value, base, y] of [[mass, given, row - 0.2], [bags.assigned[k][place], assigned, row + 0.2]]) {
        if (value <= 0) continue;
        traces[place].x.push(unit * value);
        traces[place].base.push(unit * base);
        traces[place].y.push(y);
        traces[place].hovertext.push(plain(words));
      }
      given += mass;
      assigned += bags.assigned[k][place];
    });
  });
  const title = bags.hours === null ? "rows" : whole ? "hours" : "minutes";
  element("totals-title").textContent =
    shown.length < all.length
      ? `Given above assigned, ${title}: the first ${shown.length} of ${all.length} bags`
      : `Given above assigned, ${title}`;
  draw("totals", traces, {
    height: 70 + LANE_HEIGHT * n,
    barmode: "overlay",
    annotations: beside ? lanes.filter((lane) => !lanesOfBags.includes(lane)).map((lane) => ({
      x: 0, y: lanes.indexOf(lane), xanchor: "left", text: "no totals", showarrow: false, font: { color: "#595959" },
    })) : [],
    margin: { l: beside ? 10 : 110, r: 10, t: 30, b: 30 },
    xaxis: { side: "top", gridcolor: "#e4e4e4", zeroline: false, rangemode: "tozero" },
    yaxis: {
      tickvals: rows,
      ticktext: beside ? rows.map(() => "") : shown.map((k) => plain(shortened(bags.names[k], 16))),
      range: [n - 0.5, -0.5],
      fixedrange: true, showgrid: false, zeroline: false,
    },
  });
}
