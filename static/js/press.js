/** What the pointer is pressed on stays in its place until it is let go, or the click is lost.
 *
 * Answers that come meanwhile, whoever asked, are taken at the release, in their order, after the
 * click. All of them: one that changes another part may move what is pressed.
 */

const TAP_MS = 400; // a browser makes the click of a finger after its release, in a task of its own

let isPressed = false;
/** @type {(() => void)[]} what takes an answer that came while the pointer was pressed */
const held = [];
let tapTimer = 0;

function takeHeld() {
  if (isPressed || !held.length) return;
  setTimeout(takeHeld); // also when this one fails
  held.shift()();
}

/** The click, if it is one, comes first. */
function release() {
  clearTimeout(tapTimer);
  isPressed = false;
  setTimeout(takeHeld);
}

/** @param {PointerEvent} event */
function letGo({ pointerType }) {
  clearTimeout(tapTimer);
  if (pointerType === "mouse" || !isPressed) release();
  else tapTimer = setTimeout(release, TAP_MS);
}

/** @param {PointerEvent} event */
function press({ button }) {
  if (button !== 0) return; // a menu may keep the release of another one
  clearTimeout(tapTimer);
  isPressed = true;
}

/** Who asked may have been answered by another meanwhile: what took its place has the same id. */
function findTarget(details) {
  const { target, requestConfig } = details;
  if (target.isConnected || requestConfig.triggeringEvent?.type === "refresh") return;
  details.target = document.getElementById(target.id) ?? target;
}

/** Starts holding back. */
export function startHolding() {
  document.addEventListener("pointerdown", press, true);
  document.addEventListener("pointerup", letGo, true);
  const ends = ["click", "pointercancel", "contextmenu", "dragend", "visibilitychange"];
  for (const end of ends) document.addEventListener(end, release, true);
  window.addEventListener("blur", release);
  // A browser's own menu of choices keeps the release. A text field changes at the press.
  document.addEventListener(
    "change",
    ({ target }) => {
      if (target.matches("select")) release();
    },
    true,
  );
  document.addEventListener(
    "pointermove",
    ({ pointerType, buttons }) => {
      if (isPressed && pointerType === "mouse" && !(buttons & 1)) release();
    },
    true,
  );
  document.addEventListener("htmx:beforeSend", ({ detail }) => {
    const { xhr } = detail;
    const take = xhr.onload;
    xhr.onload = (event) => {
      const now = () => {
        findTarget(detail);
        take.call(xhr, event);
      };
      if (isPressed || held.length) held.push(now);
      else now();
    };
  });
}
