/** Rows of a form that a person adds and removes. */

/** @param {HTMLFormElement} form */
export function addRow(form) {
  const row = form.querySelector("[data-row-template]").content.cloneNode(true);
  form.querySelector("[data-rows]").append(row);
  form.querySelector("[data-row]:last-child input").focus();
}

/** @param {HTMLElement} button */
export function removeRow(button) {
  const row = button.closest("[data-row]");
  const next = row.nextElementSibling?.querySelector("input");
  row.remove();
  (next ?? document.querySelector("[data-row-add]")).focus();
}
