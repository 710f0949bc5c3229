// The page: the filter of classes, all parts in turn, and how it is printed.

const PRINTED_WIDTH = 960;
const PRINTED_HEIGHT = 560;
const PRINTED_PART = 0.7; // of the height on the screen

function startFilter() {
  const box = element("classes");
  classes.forEach((look, place) => {
    const check = make("input", { type: "checkbox", checked: "" });
    check.addEventListener("change", () => {
      if (check.checked) hidden.delete(place);
      else hidden.add(place);
      showClasses();
    });
    const name = make("span", { title: `${look.name}, ${look.rows.toLocaleString("en")} rows` }, look.name);
    box.append(make("label", {}, check, swatch(place), name));
  });
}

function resizeForPaper(printing) {
  for (const id of plots.keys()) {
    const box = element(id);
    const beside = box.closest(".beside") && !box.closest(".several");
    const part = !beside ? 1 : id === "totals" ? 2 / 7 : id === "map-plot" ? 2 / 3 : 5 / 7;
    const onScreen = Number(box.dataset.height);
    const height = printing ? Math.min(PRINTED_PART * onScreen, PRINTED_HEIGHT) : onScreen;
    const width = printing ? Math.floor(part * PRINTED_WIDTH) - (beside ? 8 : 0) : undefined;
    box.style.height = `${height}px`;
    Plotly.relayout(box, { width, height, autosize: !printing });
  }
}

// What is seen first is drawn first; between the others, the page answers.
function drawInTurn(parts) {
  if (!parts.length) {
    document.documentElement.dataset.ready = "true";
    return;
  }
  parts[0]();
  setTimeout(drawInTurn, 0, parts.slice(1));
}

startFilter();
startTables();
window.addEventListener("beforeprint", () => resizeForPaper(true));
window.addEventListener("afterprint", () => resizeForPaper(false));
drawInTurn([...(report.timeline ? [startDays] : []), startBags, startMap, startConvergence]);
