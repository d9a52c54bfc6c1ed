/** The form of a new training: rows of variables, chips that fill fields, the upload, the draft. */

import { keepDraft } from "./draft.js";
import { addRow, removeRow } from "./rows.js";
import { UploadZone } from "./upload.js";
import { say } from "./words.js";

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;

/** @param {HTMLInputElement | HTMLTextAreaElement} field @param {string} value */
function fill(field, value) {
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** @param {number} bytes as a quantity that the field reads */
function memoryQuantity(bytes) {
  return bytes % GIB === 0 ? `${bytes / GIB}Gi` : `${Math.round(bytes / MIB)}Mi`;
}

/** @param {number} millicores */
function cpuQuantity(millicores) {
  return millicores % 1000 === 0 ? String(millicores / 1000) : `${millicores}m`;
}

/** @param {HTMLElement} button */
function insertAtCursor(button) {
  const field = document.getElementById("command");
  const { selectionStart: start, selectionEnd: end } = field;
  field.setRangeText(button.dataset.insert, start, end, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
}

/** @param {HTMLElement} button */
function fillSize(button) {
  const { size: role, cpu, memory } = button.dataset;
  const field = (part) => document.getElementById(`replicas.${role}.${part}`);
  fill(field("cpu"), cpuQuantity(Number.parseInt(cpu, 10)));
  fill(field("memory"), memoryQuantity(Number(memory)));
}

/** Shows the roles and texts of the topology that is chosen; of optional roles those that are wanted.
 * @param {HTMLFormElement} form
 */
function showTopology(form) {
  const name = form.elements.topology.value;
  for (const part of form.querySelectorAll("[data-topologies]")) {
    part.hidden = !part.dataset.topologies.split(" ").includes(name);
  }
  for (const add of form.querySelectorAll('[data-role-count="1"]')) {
    const role = add.parentElement.querySelector("[data-role]");
    const count = document.getElementById(`replicas.${role.dataset.role}.count`);
    role.hidden = count.value === "0";
    add.hidden = !role.hidden;
  }
}

/** @param {HTMLElement} button that adds an optional role, or removes it */
function countRole(button) {
  const place = button.closest("[data-topologies]");
  const role = place.querySelector("[data-role]");
  const count = document.getElementById(`replicas.${role.dataset.role}.count`);
  fill(count, button.dataset.roleCount);
  showTopology(button.form);
  const target = role.hidden ? "[data-role-count='1']" : `[id='replicas.${role.dataset.role}.cpu']`;
  place.querySelector(target).focus();
}

/** A card of machines stands for the first of its topologies until another is chosen there.
 * @param {HTMLFormElement} form
 */
function followTopology(form) {
  form.addEventListener("change", ({ target }) => {
    if (target.name === "machines") {
      const within = form.querySelector(`[data-when="machines=${target.value}"]`);
      const chosen = within.querySelector(":checked") ?? within.querySelector("input");
      chosen.checked = true;
    }
    if (target.name === "machines" || target.name === "topology") showTopology(form);
  });
  form.addEventListener("refresh", () => showTopology(form));
  showTopology(form);
}

/** @param {HTMLFormElement} form */
function listenToClicks(form) {
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if ("insert" in button.dataset) insertAtCursor(button);
    else if ("fill" in button.dataset) {
      fill(document.getElementById(button.dataset.fill), button.dataset.value);
    } else if ("size" in button.dataset) fillSize(button);
    else if ("roleCount" in button.dataset) countRole(button);
    else if ("rowAdd" in button.dataset) addRow(form);
    else if ("rowRemove" in button.dataset) {
      removeRow(button);
      form.dispatchEvent(new Event("refresh"));
    }
  });
}

/** The offered image that is written in the field looks pressed. */
function markImage(form) {
  const image = document.getElementById("image");
  const mark = () => {
    for (const offer of form.querySelectorAll('[data-fill="image"]')) {
      offer.setAttribute("aria-pressed", String(offer.dataset.value === image.value.trim()));
    }
  };
  image.addEventListener("input", mark);
  mark();
}

/** Links to a wrong field open what hides it. */
function openTargets(form) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    const field = link && document.getElementById(link.getAttribute("href").slice(1));
    if (!field || !form.contains(field)) return;
    event.preventDefault();
    const fold = field.closest("details");
    if (fold) fold.open = true;
    field.focus();
    field.scrollIntoView({ block: "center" });
  });
}

/** A submit waits for an upload that still runs, and happens once.
 * @param {HTMLFormElement} form
 * @param {UploadZone} zone
 */
function guardSubmit(form, zone) {
  const button = form.querySelector('.training-buttons button[type="submit"]');
  const label = button.lastChild;
  const words = label.textContent;
  form.addEventListener("submit", (event) => {
    if (zone?.isBusy && form.elements.source_kind.value === "bundle") {
      event.preventDefault();
      label.textContent = say("uploading");
      const { submitter } = event;
      zone.whenDone = () => form.requestSubmit(submitter);
      return;
    }
    if (button.getAttribute("aria-busy") === "true") event.preventDefault();
    button.setAttribute("aria-busy", "true");
  });
  const wake = () => {
    button.removeAttribute("aria-busy");
    label.textContent = words;
  };
  if (zone) zone.whenStopped = wake;
  // The back button shows this page as it was left.
  window.addEventListener("pageshow", wake);
  form.addEventListener("input", wake);
}

/** After a refusal the first wrong field has the focus; the list above it is read out besides. */
function focusFirstError(form) {
  const link = document.querySelector("#errors a");
  if (!link) return;
  const field =
    form.querySelector('[aria-invalid="true"]') ??
    document.getElementById(link.getAttribute("href").slice(1));
  field?.focus();
}

const form = document.getElementById("training");
if (form) {
  const drop = form.querySelector("[data-drop]");
  const zone = drop && new UploadZone(drop); // the YAML tab has none
  listenToClicks(form);
  if (drop) {
    markImage(form);
    followTopology(form);
  }
  openTargets(form);
  guardSubmit(form, zone);
  keepDraft(form);
  focusFirstError(form);
}
