/** The tab in which a notebook or TensorBoard opens: once it runs, fetches a ticket and goes on.
 *
 * The address with the ticket replaces this page in the tab's history, so going back does not come
 * here again. A redirect cannot do it: the page's `form-action` stops one to another origin.
 */

import { say } from "./words.js";

const headers = { ...JSON.parse(document.body.getAttribute("hx-headers")), Accept: "application/json" };

/** @param {HTMLElement} part @param {string} text @param {string} [nextStep] */
function refuse(part, text, nextStep = "") {
  const note = part.querySelector("[data-open-error]");
  note.querySelector("[data-text]").textContent = text;
  note.querySelector("[data-next-step]").textContent = nextStep;
  note.hidden = false;
  part.querySelector("[data-open-words]").hidden = true;
  part.querySelector("[data-open-again]").hidden = false;
}

/** @param {HTMLElement} part with the address that gives a ticket */
async function open(part) {
  if (part.dataset.isBusy) return;
  part.dataset.isBusy = "yes";
  try {
    const answer = await fetch(part.dataset.openNow, { method: "POST", headers });
    const body = await answer.json();
    if (answer.ok) window.location.replace(body.url);
    else refuse(part, body.text, body.next_step);
  } catch {
    refuse(part, say("no_answer"));
  } finally {
    delete part.dataset.isBusy;
  }
}

function openWhatRuns() {
  const part = document.querySelector("[data-open-now]");
  if (part) void open(part);
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-open-again] button")) openWhatRuns();
});
document.addEventListener("htmx:load", (event) => {
  if (event.detail.elt.id === "opening") openWhatRuns();
});
openWhatRuns();
