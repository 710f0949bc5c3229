"use strict";
// The connection with the server: requests one after the other, the state that the page shows, and problems.

const WAIT_RUNNING = 500; // milliseconds between two looks at the state, while labels are found
const WAIT_IDLE = 3000;

let state = null;
const views = []; // functions that show a state, in the order of the page
const drawn = new Map(); // what was drawn last, so that nothing is drawn twice
let asked = 0; // number of the last request for a state, and of the one that is shown
let answered = 0;
let queue = Promise.resolve();
let waiting = null;

// A request that failed: what the server says, and the file or setting that it is about.
class Problem extends Error {
  constructor(words, field = null, status = 0) {
    super(words);
    this.field = field;
    this.status = status;
  }
}

// The name of this tab. A page that is loaded again is the same tab.
function tabName() {
  const again = performance.getEntriesByType("navigation")[0]?.type !== "navigate";
  const name = (again && sessionStorage.getItem("tab")) || crypto.randomUUID();
  sessionStorage.setItem("tab", name);
  return name;
}
const TAB = tabName();

async function request(method, path, body) {
  const headers = { "X-Tab": TAB };
  if (method !== "GET") headers["X-Revision"] = String(state.revision);
  const plain = body !== undefined && !(body instanceof Blob);
  if (plain) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: plain ? JSON.stringify(body) : body, cache: "no-store" });
  } catch {
    throw new Problem(stoppedWords());
  }
  const kind = answer.headers.get("Content-Type") ?? "";
  const content = kind.includes("json") ? await answer.json() : null;
  if (answer.ok) return content;
  if (content) throw new Problem(content.problem, content.field, answer.status);
  const gone = answer.status === 404 || answer.status === 403;
  throw new Problem(
    gone ? "This address is no longer valid: open the one that the studio wrote when it was last started."
      : `The studio answered with error ${answer.status}. What it wrote where it was started says more.`,
    null, answer.status,
  );
}

function stoppedWords() {
  const folder = state ? ` ${/\s/.test(state.folder) ? `"${state.folder}"` : state.folder}` : "";
  return `The studio has stopped: start it again with “apportion studio${folder}”, and open the address that it writes. Nothing is lost.`;
}

// Ask for a state and show it, unless a later request was answered first.
async function fetchState(method, path, body) {
  const number = ++asked;
  const found = await request(method, path, body);
  if (number < answered) return;
  answered = number;
  showBanner("");
  showState(found);
}

// Change something. Changes wait for each other, because each needs the revision that the last one left.
function change(method, path, body) {
  const result = queue.then(() => fetchState(method, path, body));
  queue = result.catch(() => {});
  return result.finally(pollSoon);
}

// Change something, and show a problem beside the field that it is about, else in a place of the page.
async function attempt(place, method, path, body) {
  clearProblems(place);
  try {
    await change(method, path, body);
    return true;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 409) await refresh();
    if (problem.status === 0) showBanner(problem.message);
    else showProblem(problem.message, problem.field, place);
    return false;
  }
}

async function refresh() {
  try {
    await fetchState("GET", "api/state");
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    showBanner(problem.message);
  }
}

// Tell the server that this tab is closed, so that the next one is not told of it.
function leave() {
  fetch("api/leave", { method: "POST", headers: { "X-Tab": TAB }, keepalive: true }).catch(() => {});
}

function running() {
  return state?.job?.state === "running";
}

function pollSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    await refresh();
    pollSoon();
  }, running() ? WAIT_RUNNING : WAIT_IDLE);
}

function showState(found) {
  state = found;
  for (const view of views) view(found);
}

function showBanner(words) {
  if (isNew("banner", words)) element("banner").textContent = words;
}

// Whether a value differs from the last one with this name.
function isNew(name, value) {
  const text = JSON.stringify(value);
  if (drawn.get(name) === text) return false;
  drawn.set(name, text);
  return true;
}

// Problems that a request left; they go when the next request is made.
function showProblem(words, field, place) {
  const slot = document.querySelector(`[data-problem="${CSS.escape(field ?? "")}"]`) ?? element(place);
  for (let box = slot.parentElement; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  slot.textContent = words;
  slot.hidden = false;
  slot.dataset.left = "";
  document.querySelector(`[data-setting="${CSS.escape(field ?? "")}"]`)?.setAttribute("aria-invalid", "true");
  slot.scrollIntoView({ block: "nearest" });
}

// Remove problems, but not those of other settings: what was typed there is still wrong.
function clearProblems(place = "") {
  for (const slot of document.querySelectorAll("[data-left]")) {
    const setting = slot.closest(".setting");
    if (setting && slot.id !== place) continue;
    slot.textContent = "";
    delete slot.dataset.left;
    setting?.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
  }
}

// Open what a setting is hidden in, and go there.
function goTo(control) {
  for (let box = control.parentElement; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  control.scrollIntoView({ block: "center" });
  control.focus();
}

// Replace the children of an element; what had the focus keeps it, if it has an id and is there again.
function refill(box, ...children) {
  const focused = box.contains(document.activeElement) ? document.activeElement.id : "";
  box.replaceChildren(...children);
  if (focused) (element(focused) ?? box.querySelector("button, input, select"))?.focus();
}

// Give the focus to an element, if what had it is gone or can no longer have it.
function keepFocus(id) {
  const { activeElement: focused } = document;
  if (!focused || focused === document.body || focused.disabled || focused.closest("[hidden]")) {
    element(id).focus({ preventScroll: true });
  }
}

function makeButton(words, action, attributes = {}) {
  const button = make("button", { type: "button", ...attributes }, ...[words].flat());
  button.addEventListener("click", action);
  return button;
}

function counted(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

function listOf(items) {
  return make("ul", {}, ...items.map((item) => make("li", {}, item)));
}
