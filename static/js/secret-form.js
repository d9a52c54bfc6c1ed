/** The form of a secret: rows of keys and values. */

import { addRow, removeRow } from "./rows.js";

document.getElementById("secret").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("rowAdd" in button.dataset) addRow(button.form);
  else if ("rowRemove" in button.dataset) removeRow(button);
});
