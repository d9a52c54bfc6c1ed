/** Questions in a dialog, the account menu, and where the focus goes. */

import { toast } from "./toasts.js";
import { say } from "./words.js";

function startDialog() {
  const dialog = document.getElementById("dialog");
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== dialog || dialog.open) return;
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.showModal();
  });
  // An open question is replaced only from within: what was asked for before it opened comes too late.
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const isFromElsewhere = !dialog.contains(detail.requestConfig.elt);
    if (detail.target === dialog && dialog.open && isFromElsewhere) detail.shouldSwap = false;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful && event.detail.elt.matches("[data-dialog-form]")) dialog.close();
  });
  dialog.addEventListener("click", (event) => {
    // The backdrop belongs to the dialog element; everything else lies inside its form.
    if (event.target === dialog || event.target.closest("[data-dialog-close]")) {
      event.preventDefault();
      dialog.close();
    }
  });
}

function startMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("[data-menu][open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("[data-menu][open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
}

/** Requests that a person made and that failed are told; those of live.js repair themselves. */
function startFailures() {
  const tell = (event) => {
    const { requestConfig, xhr } = event.detail;
    if (requestConfig?.triggeringEvent?.type === "refresh") return;
    // A refusal comes with a sentence of its own (portal/web/errors.py).
    const isSentence = xhr?.getResponseHeader("Content-Type")?.startsWith("text/plain");
    toast(xhr?.status < 500 && isSentence ? xhr.responseText : say("no_answer"), "error");
  };
  document.addEventListener("htmx:responseError", tell);
  document.addEventListener("htmx:sendError", tell);
  document.addEventListener("htmx:timeout", tell);
}

/** Starts all of it. */
export function startDialogs() {
  startDialog();
  startMenus();
  startFailures();
  document.addEventListener(
    "click",
    (event) => {
      if (event.target.closest('a[aria-disabled="true"]')) {
        event.preventDefault();
        event.stopImmediatePropagation();
      }
    },
    true,
  );
  document.querySelector("[data-focus]")?.focus();
}
