/** What a person did to a part of the page outlives its being read again: folds, ticks, scroll. */

/** @type {Map<string, boolean>} */
const open = new Map();
/** @type {Set<string>} ids of boxes that are ticked */
const ticked = new Set();
/** @type {Map<string, number>} */
const scrolled = new Map();

const FOCUSABLE = "a[href], button, summary, input, select, textarea, [tabindex]";
/** @type {{id: string, name: string, nth: number, count: number} | null} where the focus is in the part that is being replaced */
let focused = null;

/** What somebody knows a link or button by: what it is, what it leads to or sends, and what it says.
 * @param {Element} element
 */
function nameOf(element) {
  const names = ["href", "name", "value", "aria-label"];
  const leads = names.map((name) => element.getAttribute(name) ?? "");
  const sendsTo = element.form?.getAttribute("action") ?? "";
  const says = element.matches("a, button, summary") ? element.textContent.trim() : "";
  return [element.tagName, ...leads, sendsTo, says].join("\n");
}

/** @param {Element} place @param {string} name */
function findNamed(place, name) {
  return [...place.querySelectorAll(FOCUSABLE)].filter((element) => nameOf(element) === name);
}

/** htmx gives the focus back to what has an id; what has none is known by its place and its name.
 * @param {Element} part that is being replaced
 */
function rememberFocus(part) {
  focused = null;
  const element = document.activeElement;
  const place = element?.closest("[id]");
  if (!place || element.id || !part.contains(element)) return;
  const name = nameOf(element);
  const same = findNamed(place, name);
  focused = { id: place.id, name, nth: same.indexOf(element), count: same.length };
}

/** Never to another one than it was on: who presses Enter then would do something else. */
function giveFocusBack() {
  const place = focused && document.getElementById(focused.id);
  const isLost = !document.activeElement || document.activeElement === document.body;
  const same = place && isLost ? findNamed(place, focused.name) : [];
  if (same.length === focused?.count) same[focused.nth]?.focus({ preventScroll: true });
  focused = null;
}

/** What a fold will be; it says so in a task of its own, which nobody hears when it was read again until then.
 * @param {MouseEvent} event
 */
function rememberFold({ target }) {
  const fold = target.closest("summary")?.parentElement;
  if (fold?.id && fold.matches("details")) open.set(fold.id, !fold.open);
}

/** Starts remembering. */
export function startKeeping() {
  document.addEventListener("click", rememberFold, true);
  document.addEventListener(
    "toggle",
    (event) => {
      if (event.target.id) open.set(event.target.id, event.target.open);
    },
    true,
  );
  document.addEventListener("change", ({ target }) => {
    if (!target.matches("input[data-keep]")) return;
    if (target.checked) ticked.add(target.id);
    else ticked.delete(target.id);
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.shouldSwap) rememberFocus(event.detail.target);
    for (const element of event.detail.target.querySelectorAll('[id][tabindex="0"]')) {
      scrolled.set(element.id, element.scrollTop);
    }
  });
  document.addEventListener("htmx:load", (event) => {
    const { elt } = event.detail;
    for (const element of elt.querySelectorAll("details[id]")) {
      if (open.has(element.id)) element.open = open.get(element.id);
    }
    for (const box of elt.querySelectorAll("input[data-keep]")) box.checked = ticked.has(box.id);
    for (const element of elt.querySelectorAll('[id][tabindex="0"]')) {
      if (scrolled.has(element.id)) element.scrollTop = scrolled.get(element.id);
    }
    giveFocusBack();
  });
}
