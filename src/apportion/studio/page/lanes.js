"use strict";
// Lanes of days as SVG: one bar per run of windows with one label. Nothing here asks the server.

const MOST_BARS = 3000; // on the page at a time
const LANE = 46; // height of a lane
const BEFORE = 12; // height of the lane of labels before relabeling
const AXIS = 24;
const NARROW = 560; // below this width, a day's name stands above its lane
const TICKS = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400];

// Segments as a list per day, from the lists of all days.
function segmentsByDay(segments, n) {
  const byDay = Array.from({ length: n }, () => []);
  segments.day.forEach((day, at) => byDay[day].push({
    day, start: segments.start[at], end: segments.end[at], label: segments.label[at],
    confidence: segments.confidence[at], rows: segments.row_last[at] - segments.row_first[at] + 1, given: segments.given[at],
  }));
  for (const items of byDay) items.sort((a, b) => a.start - b.start);
  return byDay;
}

// Cut segments into slots that show the label of most of their time, where there are more than can be drawn.
function thinned(items, from, to, most) {
  const seen = items.filter(({ start, end }) => end > from && start < to);
  if (seen.length <= most) return seen;
  const width = (to - from) / most;
  const slots = Array.from({ length: most }, () => new Map());
  for (const item of seen) {
    const last = Math.min(most - 1, Math.floor((item.end - from) / width));
    for (let slot = Math.max(0, Math.floor((item.start - from) / width)); slot <= last; slot++) {
      const overlap = Math.min(item.end, from + (slot + 1) * width) - Math.max(item.start, from + slot * width);
      if (overlap <= 0) continue;
      const sum = slots[slot].get(item.label) ?? { seconds: 0, sure: 0, rows: 0 };
      sum.seconds += overlap;
      sum.sure += overlap * item.confidence;
      sum.rows += (item.rows * overlap) / (item.end - item.start);
      slots[slot].set(item.label, sum);
    }
  }
  return mergedSlots(slots, seen[0].day, from, width);
}

function mergedSlots(slots, day, from, width) {
  const bars = [];
  slots.forEach((sums, slot) => {
    if (!sums.size) return;
    const [label, sum] = [...sums].reduce((best, one) => (one[1].seconds > best[1].seconds ? one : best));
    const start = from + slot * width;
    const bar = bars.at(-1);
    if (bar && bar.label === label && Math.abs(bar.end - start) < 1e-6 * width) {
      bar.confidence = (bar.confidence * bar.rows + (sum.sure / sum.seconds) * sum.rows) / (bar.rows + sum.rows || 1);
      bar.rows += sum.rows;
      bar.end = start + width;
    } else {
      bars.push({ day, start, end: start + width, label, confidence: sum.sure / sum.seconds, rows: sum.rows, given: false, slot: true });
    }
  });
  for (const bar of bars) bar.rows = Math.round(bar.rows);
  return bars;
}

// Draw lanes into a box. `view` has the days to draw with their names, bars, bars before and corrections, and the
// range of time. Returns where everything is: `x(seconds)`, `seconds(x)`, and the top of every lane.
function drawLanes(box, view, classes) {
  const width = Math.max(280, Math.floor(box.clientWidth));
  const narrow = width < NARROW;
  const left = narrow ? 4 : 122;
  const above = (narrow ? 18 : 0) + (view.showBefore ? BEFORE + 2 : 0);
  const height = LANE + above;
  const scale = (width - left - 12) / (view.to - view.from);
  const place = {
    width, left, above, height, n: view.lanes.length,
    x: (seconds) => left + (Math.min(Math.max(seconds, view.from), view.to) - view.from) * scale,
    seconds: (x) => Math.min(Math.max(view.from + (x - left) / scale, view.from), view.to),
    top: (lane) => AXIS + lane * height,
  };
  const svg = makeSvg("svg", { width, height: AXIS + height * view.lanes.length + 4, "aria-hidden": "true" }, patternsOf(classes));
  svg.append(drawAxis(place, view), ...view.lanes.map((lane, index) => drawLane(place, lane, index, view, classes)));
  svg.append(makeSvg("rect", { id: "chosen-box", class: "chosen", visibility: "hidden" }));
  box.replaceChildren(svg);
  return place;
}

function patternsOf(classes) {
  return makeSvg("defs", {}, ...classes.map((style, label) =>
    makeSvg("pattern", { id: `fill-${label}`, width: 24, height: 14, patternUnits: "userSpaceOnUse" },
      makeSvg("rect", { width: 24, height: 14, fill: style.color }), patternPath(style.pattern ?? "", 24, 14))));
}

function drawAxis(place, { from, to }) {
  const most = Math.max(2, Math.floor((place.width - place.left) / 64));
  const step = TICKS.find((seconds) => (to - from) / seconds <= most) ?? TICKS.at(-1);
  const bottom = place.top(place.n);
  const group = makeSvg("g", { class: "axis" });
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = place.x(at);
    const anchor = x > place.width - 24 ? "end" : x < 24 ? "start" : "middle";
    group.append(makeSvg("line", { x1: x, x2: x, y1: AXIS - 4, y2: bottom }),
      makeSvg("text", { x, y: AXIS - 9, "text-anchor": anchor }, at === 86400 ? "24:00" : clock(at)));
  }
  return group;
}

function drawLane(place, lane, index, view, classes) {
  const top = place.top(index);
  const narrow = place.left < 100;
  const group = makeSvg("g", { class: "lane" },
    makeSvg("text", { x: narrow ? 2 : 0, y: narrow ? top + 14 : top + place.above + LANE / 2 + 2, class: "day" }, lane.name));
  const middle = top + place.above + LANE / 2 - 2;
  if (view.showBefore) {
    const y = top + place.above - BEFORE;
    group.append(makeSvg("text", { x: place.left - 4, y: y + 9, "text-anchor": "end", class: "small" }, narrow ? "" : "before"),
      ...lane.before.map((item) => drawBar(place, item, y, BEFORE - 2, classes)));
  }
  lane.bars.forEach((item) => {
    const tall = (LANE - 14) * (item.confidence === null ? 0.6 : 0.3 + 0.7 * item.confidence);
    const bar = drawBar(place, item, middle - tall / 2, tall, classes);
    bar.classList.add("bar");
    bar.dataset.bar = item.number;
    group.append(bar);
    const name = barName(place, item, middle, classes);
    if (name) group.append(name);
  });
  for (const item of lane.corrections) {
    const x = place.x(item.start);
    group.append(makeSvg("rect", {
      x, y: top + place.height - 8, width: Math.max(2, place.x(item.end) - x), height: 5, rx: 1, class: item.exclude ? "correction not" : "correction",
      fill: item.exclude ? "none" : fillOf(item.label),
    }));
  }
  return group;
}

function fillOf(label) {
  return label < 0 ? "#ffffff" : `url(#fill-${label})`;
}

function drawBar(place, item, y, height, classes) {
  const x = place.x(item.start);
  return makeSvg("rect", { x, y, width: Math.max(0.5, place.x(item.end) - x - 0.4), height, fill: fillOf(item.label), class: item.label < 0 ? "unlabeled" : "labeled" });
}

// The name of a class on a bar that has room for it, so that colors are not alone.
function barName(place, item, middle, classes) {
  const room = place.x(item.end) - place.x(item.start);
  const most = Math.floor((room - 6) / 7.5); // characters
  if (item.label < 0 || most < Math.min(6, [...classes[item.label].name].length)) return null;
  const name = shortened(classes[item.label].name, most);
  return makeSvg("text", { x: place.x(item.start) + room / 2, y: middle + 4, "text-anchor": "middle", class: "name" }, name);
}
