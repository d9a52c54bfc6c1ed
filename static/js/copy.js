/** Buttons that copy: `data-copy="#id"` copies the text of that element. */

import { toast } from "./toasts.js";
import { say } from "./words.js";

/**
 * @param {string} text
 * @param {Element} button whose `data-copy-label` says that it is done
 */
export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    toast(say("copy_failed"), "warning");
    return;
  }
  const label = button.querySelector("[data-copy-label]");
  if (!label) return;
  label.dataset.was ??= label.textContent;
  label.textContent = say("copied");
  setTimeout(() => (label.textContent = label.dataset.was), 2000);
}

/** Starts listening for clicks on copy buttons. */
export function startCopying() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copyText(document.querySelector(button.dataset.copy).textContent, button);
  });
}
