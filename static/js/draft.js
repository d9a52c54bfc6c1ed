/** Keeps what is typed into a form in this tab, so that leaving the page by mistake loses nothing. */

import { say } from "./words.js";

const KEY = "homeport-draft";
const SENT_KEY = "homeport-draft-sent"; // the path of the form that was sent

/** @param {HTMLFormElement} form @returns {[string, string][]} */
function read(form) {
  const skipped = new Set(["csrfmiddlewaretoken", "file", "like"]);
  return [...new FormData(form)].filter(
    ([name, value]) => typeof value === "string" && !skipped.has(name),
  );
}

/** The field itself, or what takes its place for a value of several lines, of which an input has one. */
function asLong(field, value) {
  if (field.type !== "text" || !value.includes("\n")) return field;
  const area = document.createElement("textarea");
  for (const name of ["name", "class", "aria-label"]) area.setAttribute(name, field.getAttribute(name) ?? "");
  field.replaceWith(area);
  return area;
}

/** @param {HTMLFormElement} form @param {[string, string][]} pairs */
function write(form, pairs) {
  const yaml = pairs.find(([name]) => name === "yaml");
  if (yaml) {
    // It was typed in the other tab, which the server writes.
    const field = Object.assign(document.createElement("textarea"), { name: "yaml", hidden: true });
    field.value = yaml[1];
    form.append(field);
    form.requestSubmit(document.getElementById("view-yaml"));
    return;
  }
  const rows = pairs.filter(([name]) => name === "env_name").length;
  while (form.querySelectorAll("[data-row]").length < rows) {
    form.querySelector("[data-row-add]").click();
  }
  const taken = new Map();
  for (const box of form.querySelectorAll('input[type="checkbox"]')) box.checked = false;
  for (const [name, value] of pairs) {
    const fields = [...form.querySelectorAll(`[name="${CSS.escape(name)}"]`)];
    const choice = fields.find(({ type, value: own }) => /radio|checkbox/.test(type) && own === value);
    if (choice) {
      choice.checked = true;
      continue;
    }
    const field = fields[taken.get(name) ?? 0];
    taken.set(name, (taken.get(name) ?? 0) + 1);
    if (field) asLong(field, value).value = value;
  }
  form.dispatchEvent(new Event("refresh"));
}

/** @param {HTMLFormElement} form @param {[string, string][]} pairs */
function offer(form, pairs) {
  const note = document.createElement("p");
  note.className = "note draft-offer";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button button-second button-small";
  button.textContent = say("draft_restore");
  button.addEventListener("click", () => {
    write(form, pairs);
    note.remove();
  });
  note.append(say("draft_found"), button);
  form.before(note);
  form.addEventListener("input", () => note.remove(), { once: true });
}

/** Starts keeping; offers an earlier draft on a blank form. */
export function keepDraft(form) {
  const storage = window.sessionStorage;
  storage.removeItem(SENT_KEY); // here it is again, so it was not accepted; or it was told so before
  if (form.dataset.draft === "blank") {
    const kept = storage.getItem(KEY);
    if (kept && kept !== JSON.stringify(read(form))) offer(form, JSON.parse(kept));
  }
  const save = () => storage.setItem(KEY, JSON.stringify(read(form)));
  form.addEventListener("input", save);
  form.addEventListener("change", save);
  // It may not arrive: signed out meanwhile, a portal that is down, an upload that is waited for.
  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.submitter?.name) return; // the buttons with names submit nothing
    save();
    storage.setItem(SENT_KEY, location.pathname);
  });
}

/** On the page of a training: if the form that was sent led here, it was accepted, and is not needed any more. */
export function endDraft() {
  const storage = window.sessionStorage;
  const sent = storage.getItem(SENT_KEY);
  if (!sent || !document.referrer || new URL(document.referrer).pathname !== sent) return;
  storage.removeItem(SENT_KEY);
  storage.removeItem(KEY);
}
