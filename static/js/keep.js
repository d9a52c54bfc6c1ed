/** What a person did to a part of the page outlives its being read again: folds, ticks, scroll. */

/** @type {Map<string, boolean>} */
const open = new Map();
/** @type {Set<string>} ids of boxes that are ticked */
const ticked = new Set();
/** @type {Map<string, number>} */
const scrolled = new Map();

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
  });
}
