"use strict";
// Step 4 for tables without times: the rows of one bag at a time, as a list.

const ROWS_PER_PAGE = 200; // as many as the server sends

const rows = { offset: 0, total: 0, shown: [], last: -1, chosen: new Set() };

function initRows() {
  element("bag").addEventListener("change", () => {
    rows.offset = 0;
    fetchRows();
  });
  for (const [id, step] of [["rows-earlier", -ROWS_PER_PAGE], ["rows-later", ROWS_PER_PAGE]]) {
    element(id).addEventListener("click", () => {
      rows.offset = Math.max(0, rows.offset + step);
      fetchRows();
    });
  }
}

function showRowsOf(run) {
  const { entries, bag_word: word } = state.understanding;
  if (isNew("bags of rows", entries.map(({ name }) => name))) {
    element("bag-word").textContent = capitalized(word);
    document.querySelector(".bag-heading").textContent = capitalized(word);
    element("bag").replaceChildren(make("option", { value: "" }, "all"), ...entries.map(({ name }) => make("option", { value: name }, name)));
  }
  if (isNew("rows of", [run.id, run.when, state.corrections])) fetchRows();
}

async function fetchRows() {
  const bag = element("bag").value;
  const query = new URLSearchParams({ offset: rows.offset, ...(bag ? { bag } : {}) });
  const found = await request("GET", `api/rows?${query}`).catch(() => null);
  if (!found) return;
  rows.shown = found.rows;
  rows.total = found.total;
  rows.last = -1;
  rows.chosen.clear();
  element("rows-earlier").disabled = rows.offset === 0;
  element("rows-later").disabled = rows.offset + found.rows.length >= found.total;
  element("rows-shown").textContent = `${(rows.offset + 1).toLocaleString("en")} to ${(rows.offset + found.rows.length).toLocaleString("en")} of ${found.total.toLocaleString("en")}`;
  refill(element("rows").tBodies[0], ...found.rows.map(makeRow));
}

function makeRow({ row, id, bag, label, confidence }, index) {
  const check = make("input", { type: "checkbox", id: `row-${row}`, "aria-label": `Row ${id}` });
  check.addEventListener("click", (event) => checkRows(index, check.checked, event.shiftKey));
  return make("tr", {}, make("td", {}, check),
    make("th", { scope: "row" }, make("label", { for: `row-${row}` }, id)),
    make("td", {}, bag ?? ""),
    make("td", { class: "class-name" }, ...(label < 0 ? ["no label"] : [swatch({ pattern: "", ...classesOf()[label] }), className(label)])),
    make("td", { class: "number" }, confidence === null ? "–" : confidence.toFixed(2)));
}

function checkRows(index, checked, several) {
  const [first, last] = several && rows.last >= 0 ? [rows.last, index].sort((a, b) => a - b) : [index, index];
  for (const { row } of rows.shown.slice(first, last + 1)) {
    element(`row-${row}`).checked = checked;
    if (checked) rows.chosen.add(row);
    else rows.chosen.delete(row);
  }
  rows.last = index;
  if (!rows.chosen.size) return clearChoice();
  choice = { rows: [...rows.chosen] };
  const chosen = rows.shown.filter(({ row }) => rows.chosen.has(row));
  const present = [...new Set(chosen.map(({ label }) => label))];
  element("chosen-words").textContent = `${counted(chosen.length, "row")}: ${present.map(className).join(", ")}.`;
  showPanel(present, (label, exclude) => ({ rows: choice.rows, label, exclude }));
}
