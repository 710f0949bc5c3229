// The page: the filter of classes, the order of drawing, and printing.

const PRINTED_WIDTH = 960;
const PRINTED_HEIGHT = 560;
const PRINTED_SCALE = 0.7; // of the height on the screen

function initFilter() {
  const box = element("classes");
  classes.forEach((style, label) => {
    const check = make("input", { type: "checkbox", checked: "" });
    check.addEventListener("change", () => {
      if (check.checked) hidden.delete(label);
      else hidden.add(label);
      showClasses();
    });
    const name = make("span", { title: `${style.name}, ${style.rows.toLocaleString("en")} rows` }, style.name);
    box.append(make("label", {}, check, swatch(style), name));
  });
}

function resizeForPaper(printing) {
  for (const id of plots.keys()) {
    const box = element(id);
    const beside = box.closest(".beside") && !box.closest(".several");
    const part = !beside ? 1 : id === "totals" ? 2 / 7 : ["map-plot", "calibration-plot"].includes(id) ? 2 / 3 : 5 / 7;
    const onScreen = Number(box.dataset.height);
    const height = printing ? Math.min(PRINTED_SCALE * onScreen, PRINTED_HEIGHT) : onScreen;
    const width = printing ? Math.floor(part * PRINTED_WIDTH) - (beside ? 8 : 0) : undefined;
    box.style.height = `${height}px`;
    Plotly.relayout(box, { width, height, autosize: !printing });
  }
}

// Draw from top to bottom; between two sections, the page reacts to input.
function drawInOrder(sections) {
  if (!sections.length) {
    document.documentElement.dataset.ready = "true";
    return;
  }
  sections[0]();
  setTimeout(drawInOrder, 0, sections.slice(1));
}

initFilter();
initTables();
window.addEventListener("beforeprint", () => resizeForPaper(true));
window.addEventListener("afterprint", () => resizeForPaper(false));
drawInOrder([initAccuracy, ...(report.timeline ? [initDays] : []), initBags, initMap, initConvergence]);
