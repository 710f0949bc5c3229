// The page: the filter of classes, all parts in turn, and how it is printed.

const PRINTED_WIDTH = 960;

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
    const beside = box.closest(".beside");
    const part = beside ? (id === "totals" ? 2 / 7 : 5 / 7) : 1;
    Plotly.relayout(box, printing ? { width: Math.floor(part * PRINTED_WIDTH) - (beside ? 8 : 0), autosize: false } : { width: undefined, autosize: true });
  }
}

startFilter();
startTables();
if (report.timeline) startDays();
startBags();
startMap();
startConvergence();
window.addEventListener("beforeprint", () => resizeForPaper(true));
window.addEventListener("afterprint", () => resizeForPaper(false));
document.documentElement.dataset.ready = "true";
