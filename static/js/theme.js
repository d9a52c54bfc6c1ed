/* Colour theme: as the system, light or dark. A classic script in the head, so that the choice is
   there before anything is painted. */
(function () {
  "use strict";
  const KEY = "homeport-theme";
  const CHOICES = ["system", "light", "dark"];
  const root = document.documentElement;

  /** @returns {string} one of CHOICES */
  function stored() {
    try {
      const choice = localStorage.getItem(KEY);
      return CHOICES.includes(choice) ? choice : "system";
    } catch {
      return "system"; // storage is forbidden here; the system's theme is fine
    }
  }

  /** @param {string} choice */
  function apply(choice) {
    root.dataset.themeChoice = choice;
    if (choice === "system") {
      delete root.dataset.theme;
    } else {
      root.dataset.theme = choice;
    }
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      const label = button.getAttribute("data-label-" + choice);
      button.setAttribute("aria-label", label);
      button.title = label;
    }
  }

  apply(stored());
  document.addEventListener("DOMContentLoaded", () => apply(stored()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-toggle]")) {
      return;
    }
    const next = CHOICES[(CHOICES.indexOf(stored()) + 1) % CHOICES.length];
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // The choice holds for this page only.
    }
    apply(next);
  });
})();
