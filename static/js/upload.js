/** The drop zone: uploads a bundle with progress and shows what is inside. */

import { bytesText, say } from "./words.js";

const LISTING_KEY = "homeport-listing:";

/** @returns {Record<string, string>} the headers that htmx sends, so that a refusal is one line */
function pageHeaders() {
  const own = JSON.parse(document.body.getAttribute("hx-headers"));
  return { ...own, "HX-Request": "true", "HX-Current-URL": location.href };
}

/** @param {string} id @returns {any} what was inside an upload of this tab, or null */
function rememberedListing(id) {
  try {
    return JSON.parse(sessionStorage.getItem(LISTING_KEY + id));
  } catch {
    return null;
  }
}

/** @param {string} id @param {any} listing */
function rememberListing(id, listing) {
  try {
    sessionStorage.setItem(LISTING_KEY + id, JSON.stringify(listing));
  } catch {
    // Without storage only the list is missing when the form comes back with errors.
  }
}

/** A word of a command line, quoted where it must be. */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** The command that an upload most likely wants to be run, or "". */
function likelyCommand(listing) {
  const names = listing.files
    .map(({ path }) => (listing.top_folder ? path.slice(listing.top_folder.length + 1) : path))
    .filter((path) => !path.includes("/"));
  const scripts = names.filter((name) => name.endsWith(".py"));
  const known = ["train.py", "main.py", "run.py"].find((name) => scripts.includes(name));
  const script = known ?? (scripts.length === 1 ? scripts[0] : "");
  if (script) return `python ${quoted(script)}`;
  const notebooks = names.filter((name) => name.endsWith(".ipynb"));
  const isOne = !scripts.length && notebooks.length === 1;
  return isOne ? `jupyter nbconvert --to notebook --execute ${quoted(notebooks[0])}` : "";
}

/** A training without a name is called like its file, in the letters that names may have. */
function suggestName(fileName) {
  const field = document.getElementById("name");
  if (field.value || field === document.activeElement) return;
  const stem = fileName.replace(/(\.tar)?\.[a-z0-9]{1,4}$/i, "");
  const name = stem.replace(/[^A-Za-z0-9 ._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  field.value = name.slice(0, field.maxLength);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

export class UploadZone {
  /** @param {HTMLElement} zone the element with `data-drop` */
  constructor(zone) {
    this.zone = zone;
    /** @type {XMLHttpRequest | null} */
    this.request = null;
    /** @type {(() => void) | null} called once when a running upload has ended well */
    this.whenDone = null;
    /** @type {(() => void) | null} called when a running upload has ended otherwise */
    this.whenStopped = null;
    this.hidden = zone.querySelector('input[type="hidden"]');
    const input = zone.querySelector('input[type="file"]');
    // The file travels by itself, and its id with the form.
    input.removeAttribute("name");
    input.addEventListener("change", () => this.#take(input));
    this.#find("[data-upload-cancel]").addEventListener("click", () => this.cancel());
    this.#listenToDrops();
    if (this.hidden.value) this.#showListing(rememberedListing(this.hidden.value));
    // Chosen before this script had arrived: nobody heard the change.
    this.#take(input);
  }

  /** @param {HTMLInputElement} input sends what was chosen, and empties it for the next choice */
  #take(input) {
    if (!input.files.length) return;
    this.send(input.files[0]);
    input.value = "";
  }

  get isBusy() {
    return this.request !== null;
  }

  /** @param {string} selector @returns {HTMLElement} */
  #find(selector) {
    return this.zone.querySelector(selector);
  }

  #listenToDrops() {
    const mark = (isOver) => (event) => {
      event.preventDefault();
      this.zone.classList.toggle("drop-over", isOver);
    };
    this.zone.addEventListener("dragover", mark(true));
    this.zone.addEventListener("dragleave", mark(false));
    this.zone.addEventListener("drop", (event) => {
      mark(false)(event);
      const entry = event.dataTransfer.items[0]?.webkitGetAsEntry?.();
      const [file] = event.dataTransfer.files;
      if (entry?.isDirectory) this.#failed(say("upload_folder"));
      else if (file) this.send(file);
    });
  }

  /** @param {File} file */
  send(file) {
    this.cancel();
    this.#say("");
    if (file.size > Number(this.zone.dataset.maxBytes)) {
      this.#failed(this.#tooLarge());
      return;
    }
    const body = new FormData();
    body.append("file", file);
    const request = new XMLHttpRequest();
    this.request = request;
    request.open("POST", this.zone.dataset.drop);
    for (const [name, value] of Object.entries(pageHeaders())) {
      request.setRequestHeader(name, value);
    }
    request.upload.onprogress = (event) => this.#progress(file, event.loaded, event.total);
    request.onload = () => this.#ended(request);
    request.onerror = () => this.#failed(say("upload_failed"));
    this.#progress(file, 0, file.size);
    this.#find(".drop-progress").hidden = false;
    this.#find("[data-upload]").hidden = true;
    request.send(body);
  }

  cancel() {
    const wasBusy = this.isBusy;
    this.request?.abort();
    this.request = null;
    this.whenDone = null;
    if (wasBusy) this.whenStopped?.();
    this.#find(".drop-progress").hidden = true;
    this.#find("[data-upload]").hidden = !this.hidden.value;
  }

  #progress(file, loaded, total) {
    const percent = total ? Math.round((loaded * 100) / total) : 0;
    this.#find("progress").value = percent;
    this.#find("[data-upload-name]").textContent = file.name;
    this.#find("[data-upload-percent]").textContent =
      `${percent} % · ${bytesText(loaded)} / ${bytesText(total)}`;
  }

  /** @param {XMLHttpRequest} request */
  #ended(request) {
    let answer = null;
    try {
      answer = JSON.parse(request.responseText);
    } catch {
      answer = null;
    }
    if (request.status === 200 && answer?.id) {
      this.#succeeded(answer);
      return;
    }
    const signIn = request.getResponseHeader("HX-Redirect");
    if (signIn) {
      location.assign(signIn);
      return;
    }
    const isLine = request.getResponseHeader("Content-Type")?.startsWith("text/plain");
    const known = isLine ? request.responseText : answer?.errors?.map(({ text }) => text).join(" ");
    this.#failed(known || (request.status === 413 ? this.#tooLarge() : say("upload_failed")));
  }

  #tooLarge() {
    return say("upload_too_large", { most: bytesText(Number(this.zone.dataset.maxBytes)) });
  }

  #succeeded(answer) {
    const continueWith = this.whenDone;
    this.request = null;
    this.whenDone = null;
    this.hidden.value = answer.id;
    this.#find(".drop-progress").hidden = true;
    this.#find("[data-upload]").hidden = false;
    this.#find("[data-upload-file]").textContent = answer.file_name;
    this.#find("[data-upload-size]").textContent = bytesText(answer.size_bytes);
    suggestName(answer.file_name);
    rememberListing(answer.id, answer.listing);
    this.#showListing(answer.listing);
    this.hidden.dispatchEvent(new Event("change", { bubbles: true }));
    continueWith?.();
  }

  /** @param {string} text */
  #failed(text) {
    this.cancel();
    this.#say(text);
  }

  /** @param {string} text of the error, empty for none */
  #say(text) {
    const error = this.#find("[data-upload-error]");
    error.hidden = !text;
    error.querySelector("span").textContent = text;
    this.zone.querySelector(".field-error[id]")?.remove();
  }

  #showListing(listing) {
    const details = this.#find(".drop-list");
    details.hidden = !listing?.is_archive;
    this.#showHint(listing);
    if (!listing?.is_archive) return;
    const cutKey = listing.total ? "files_inside_cut" : "files_inside_unread";
    const key = listing.is_cut ? cutKey : "files_inside";
    this.#find("[data-upload-count]").textContent = say(key, { count: listing.total });
    const rows = listing.files.map(({ path, size_bytes: size }) => {
      const row = document.createElement("li");
      const name = document.createElement("span");
      const amount = document.createElement("span");
      name.textContent = path;
      amount.textContent = bytesText(size);
      row.append(name, amount);
      return row;
    });
    if (listing.total > listing.files.length) {
      const rest = document.createElement("li");
      rest.textContent = say("files_not_shown", { count: listing.total - listing.files.length });
      rows.push(rest);
    }
    this.#find("[data-upload-files]").replaceChildren(...rows);
  }

  #showHint(listing) {
    const hint = this.#find("[data-upload-hint]");
    hint.replaceChildren();
    if (listing?.top_folder) hint.append(say("top_folder", { folder: listing.top_folder }), " ");
    for (const note of listing?.notes ?? []) hint.append(note, " ");
    const likely = listing ? likelyCommand(listing) : "";
    const command = document.getElementById("command");
    if (likely && !command.value.trim()) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "chip mono";
      button.textContent = likely;
      button.addEventListener("click", () => {
        command.value = button.textContent;
        command.dispatchEvent(new Event("input", { bubbles: true }));
        command.focus();
        this.#showHint({ ...listing, files: [] });
      });
      hint.append(say("suggest"), " ", button);
    }
    hint.hidden = !hint.childNodes.length;
  }
}
