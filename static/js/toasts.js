/** Short messages in the corner; said by screen readers, gone after a while. */

const SHOWN_MS = 7000;

/** @param {HTMLElement} toast */
function leaveLater(toast) {
  // Errors stay until something else happens on the page.
  if (toast.classList.contains("toast-error")) return;
  setTimeout(() => toast.remove(), SHOWN_MS);
}

/**
 * @param {string} text
 * @param {"info" | "success" | "warning" | "error"} [level]
 */
export function toast(text, level = "info") {
  const element = document.createElement("p");
  element.className = `toast toast-${level}`;
  element.textContent = text;
  const host = document.getElementById("toasts");
  for (const old of host.querySelectorAll(".toast-error")) old.remove();
  host.append(element);
  leaveLater(element);
}

/** Messages that came with the page. */
export function startToasts() {
  for (const element of document.querySelectorAll("[data-toast]")) leaveLater(element);
}
