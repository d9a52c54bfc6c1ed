/** The form of a new notebook or TensorBoard: a submit happens once, the first error has the focus. */

const form = document.getElementById("service-form");

function guardSubmit() {
  const button = form.querySelector('button[type="submit"]');
  form.addEventListener("submit", (event) => {
    if (button.getAttribute("aria-busy") === "true") event.preventDefault();
    button.setAttribute("aria-busy", "true");
  });
  const wake = () => button.removeAttribute("aria-busy");
  // The back button shows this page as it was left.
  window.addEventListener("pageshow", wake);
  form.addEventListener("input", wake);
}

function focusFirst() {
  const link = document.querySelector("#errors a");
  if (!link) {
    form.elements.namedItem("name").focus();
    return;
  }
  const field =
    form.querySelector('[aria-invalid="true"]') ??
    document.getElementById(link.getAttribute("href").slice(1));
  field?.focus();
}

if (form) {
  guardSubmit();
  focusFirst();
}
