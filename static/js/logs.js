/** The log pane of a training: one websocket, live lines or the archive, all replicas or one. */

import { copyText } from "./copy.js";
import { endDraft } from "./draft.js";
import { LogView } from "./log-view.js";
import { Socket } from "./socket.js";
import { say } from "./words.js";

const FLOOD_LINES_PER_S = 10;
const BUSY_CODE = 1013;
// A cursor that is longer, of many replicas, goes by frames: the head of a request has a limit, and so has a frame.
const CURSOR_CHARS = 4000;
const WAITING = new Set(["pending", "starting", "restarting", "queued", "suspended"]);
const FINAL = new Set(["succeeded", "failed", "stopped"]);
const TOGGLES_KEY = "homeport-log-toggles";

class LogPane {
  /** @param {HTMLElement} pane */
  constructor(pane) {
    this.pane = pane;
    this.window = pane.querySelector("[data-log-window]");
    this.status = pane.querySelector("[data-log-state]");
    this.newLines = pane.querySelector("[data-log-new]");
    const buttons = [...pane.querySelectorAll("[data-replica]")];
    this.replicas = buttons.map((button) => button.dataset.replica).filter(Boolean);
    this.replica = "";
    this.attempt = pane.dataset.attempt; // a number, "latest" or "all"
    this.attempts = pane.querySelector("[data-log-attempt]");
    this.cursor = "";
    /** @type {string[]} what is sent of the cursor when the connection is open */
    this.cursorFrames = [];
    this.hasEnded = false;
    this.unseen = 0;
    this.lineCount = 0;
    /** @type {Map<string, {state: string, reason: string}>} */
    this.states = new Map();
    this.toggles = { times: false, wrap: true, ...this.#storedToggles() };
    this.view = new LogView(this.window, this.replicas, (count) => this.#rowsWritten(count));
    this.socket = new Socket({
      path: () => this.#path(),
      onFrame: (frame) => this.#frame(frame),
      onOpen: () => {
        for (const text of this.cursorFrames) this.socket.send(text);
        this.#tell();
      },
      onLost: (code, waitMs) => this.#lost(code, waitMs),
    });
    this.#listen();
    this.#showToggles();
    this.#watchRate();
    this.socket.connect();
  }

  #path() {
    const query = new URLSearchParams();
    if (this.replica) query.set("replica", this.replica);
    if (this.attempt !== "latest") query.set("attempt", this.attempt);
    this.cursorFrames = [];
    if (encodeURIComponent(this.cursor).length > CURSOR_CHARS) {
      for (let at = 0; at < this.cursor.length; at += CURSOR_CHARS) {
        this.cursorFrames.push(this.cursor.slice(at, at + CURSOR_CHARS));
      }
      query.set("cursor_frames", String(this.cursorFrames.length));
    } else if (this.cursor) query.set("cursor", this.cursor);
    const text = query.toString();
    return this.pane.dataset.logSocket + (text ? `?${text}` : "");
  }

  /** @param {any} frame */
  #frame(frame) {
    if (frame.cursor) this.cursor = frame.cursor;
    if (frame.type === "lines") {
      this.lineCount += frame.lines.length;
      this.view.addLines(frame.replica, frame.lines);
    } else if (frame.type === "unfinished") {
      this.lineCount ||= 1;
      this.view.showUnfinished(frame.replica, frame.lines[0]);
    } else if (frame.type === "left_out") {
      this.view.addLeftOut(frame.count);
    } else if (frame.type === "skipped") {
      this.view.addSkipped(frame.replica, frame.count);
    } else if (frame.type === "state") {
      this.states.set(frame.replica ?? "", { state: frame.state, reason: frame.reason ?? "" });
      if (frame.attempt) this.#offerAttempts(frame.attempt);
    } else if (frame.type === "end") {
      this.hasEnded = true;
      this.socket.finish();
    }
    this.#tell();
  }

  /** @param {number} code @param {number} waitMs */
  #lost(code, waitMs) {
    if (waitMs === 0) {
      this.#say("lost", say(code === 4401 ? "log_signed_out" : "log_gone"));
      return;
    }
    const key = code === BUSY_CODE ? "log_busy" : "log_lost";
    this.#say("lost", say(key, { seconds: Math.ceil(waitMs / 1000) }));
  }

  /** Says where the log stands, in words. */
  #tell() {
    const waiting = [...this.states].filter(([, { state }]) => WAITING.has(state));
    if (this.hasEnded) this.#say("end", say(this.#isInTurn ? "log_end_in_turn" : "log_end"));
    else if (Number(this.attempt) < this.#latest) this.#say("waiting", say("log_earlier"));
    else if (FINAL.has(this.states.get("")?.state)) this.#say("waiting", this.#endedText());
    else if (waiting.length) this.#say("waiting", this.#waitingText(waiting));
    else this.#say("live", say(this.lineCount ? "log_live" : "log_quiet"));
    this.#showEmpty();
    const disabled = this.#toggleButton("times").getAttribute("aria-disabled");
    if (disabled !== String(this.#lacksTimes)) this.#showToggles();
  }

  /** Lines have come, and none with its time: they are of the archive. */
  get #lacksTimes() {
    return this.lineCount > 0 && !this.view.hasTimes;
  }

  /** The archive of several replicas: one stands after the other. */
  get #isInTurn() {
    return this.#lacksTimes && !this.replica && this.replicas.length > 1;
  }

  /** After the outcome, until all lines are here: servers may run on for a while. */
  #endedText() {
    const running = [...this.states]
      .filter(([name, { state }]) => name && state === "running")
      .map(([name]) => name);
    if (!running.length) return say("log_ending");
    const count = running.length - 1;
    const rest = count ? ` (${say("log_more_waiting", { count })})` : "";
    return say("log_still_runs", { replica: running[0] }) + rest;
  }

  /** A reason that the page says above the log, with its next step, is not said again here. */
  #untold(reason) {
    const told = document.querySelector(".job-reason strong")?.textContent ?? "";
    return reason && told.includes(reason) ? "" : reason;
  }

  /**
   * What is waited for: a training in the queue as a whole, later its replicas.
   * @param {[string, {state: string, reason: string}][]} waiting
   */
  #waitingText(waiting) {
    const job = this.states.get("");
    const replicas = waiting.filter(([name]) => name);
    if (job?.state === "queued" || !replicas.length) {
      const why = this.#untold(job?.reason);
      return say("log_waiting_job") + (why ? `: ${why}` : "");
    }
    const [replica, { reason }] = replicas.find(([, state]) => state.reason) ?? replicas[0];
    const count = replicas.length - 1;
    const rest = count ? ` (${say("log_more_waiting", { count })})` : "";
    const why = this.#untold(reason || job?.reason);
    // A reason that names its replica says it all.
    if (why?.startsWith(replica)) return why + rest;
    return `${say("log_waiting", { replica })}${rest}${why ? `: ${why}` : ""}`;
  }

  /** @param {string} state @param {string} text */
  #say(state, text) {
    this.status.dataset.logState = state;
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  /** Beside the filter: how many lines it found, and among which it looked. */
  #showFound() {
    const label = this.pane.querySelector("[data-log-found]");
    const { found, count, total } = this.view.found;
    let key = "log_found";
    if (Number.isNaN(total)) key = "log_found_newest";
    else if (total > count) key = "log_found_newest_of";
    const text = this.view.filter
      ? say(key, {
          found: found.toLocaleString(),
          count: count.toLocaleString(),
          total: total.toLocaleString(),
        })
      : "";
    if (label.textContent !== text) label.textContent = text;
  }

  /** A word in the middle of the pane while there is no line in it. */
  #showEmpty() {
    this.#showFound();
    const old = this.window.querySelector(".log-empty");
    const isEmpty = !this.view.shown && !this.view.pending.length;
    if (!isEmpty) {
      old?.remove();
      return;
    }
    let text = this.hasEnded ? say("log_end_empty") : this.status.textContent;
    if (this.view.filter && this.view.rows.length) text = say("log_none_match");
    const box = old ?? document.createElement("p");
    box.className = "log-empty";
    if (box.textContent !== text) box.textContent = text;
    if (!old) this.window.append(box);
  }

  /** @param {number} count */
  #rowsWritten(count) {
    this.#showEmpty();
    if (this.view.follows || !count) return;
    this.unseen += count;
    this.newLines.querySelector("[data-text]").textContent = say("log_new", {
      count: this.unseen.toLocaleString(),
    });
    this.newLines.hidden = false;
  }

  /** How many attempts the training has had, as far as the page knows. */
  get #latest() {
    return this.attempts.options.length - 2;
  }

  /** @param {number} count so many attempts there are by now */
  #offerAttempts(count) {
    for (let number = this.#latest + 1; number <= count; number += 1) {
      this.attempts.options[0].after(new Option(String(number), String(number)));
    }
    this.pane.querySelector("[data-log-attempts]").hidden = this.#latest < 2;
  }

  /** @param {string} attempt a number, "latest" or "all"; becomes part of the page's address */
  #chooseAttempt(attempt) {
    if (attempt === this.attempt) return;
    this.#offerAttempts(Number(attempt) || 0);
    this.attempt = attempt;
    this.attempts.value = attempt;
    const address = new URL(location.href);
    if (attempt === "latest") address.searchParams.delete("attempt");
    else address.searchParams.set("attempt", attempt);
    history.replaceState(history.state, "", address);
  }

  /** @param {string} replica "" for all of them @param {string} [attempt] */
  show(replica, attempt = this.attempt) {
    if ((replica === this.replica && attempt === this.attempt) || !this.#button(replica)) return;
    this.#chooseAttempt(attempt);
    this.replica = replica;
    this.cursor = "";
    this.hasEnded = false;
    this.lineCount = 0;
    this.states.clear();
    this.view.clear();
    this.#showToggles();
    this.#follow(true);
    for (const button of this.pane.querySelectorAll("[data-replica]")) {
      const isShown = button.dataset.replica === replica || this.replicas.length === 1;
      button.setAttribute("aria-pressed", String(isShown));
    }
    this.pane.classList.toggle("log-one", replica !== "" || this.replicas.length === 1);
    const link = this.pane.querySelector("[data-log-download]");
    const query = new URLSearchParams();
    if (replica) query.set("replica", replica);
    if (attempt !== "latest") query.set("attempt", attempt);
    link.href = this.pane.dataset.download + (String(query) && `?${query}`);
    this.#say("waiting", say("log_connecting"));
    this.#showEmpty();
    this.socket.connect();
  }

  #button(replica) {
    if (!replica) return this.pane; // there is no button for all where there is only one
    return this.pane.querySelector(`[data-replica="${CSS.escape(replica)}"]`);
  }

  /** @param {boolean} follows */
  #follow(follows) {
    this.view.setFollows(follows);
    this.#toggleButton("follow").setAttribute("aria-pressed", String(follows));
    if (follows) {
      this.unseen = 0;
      this.newLines.hidden = true;
    }
  }

  #toggleButton(name) {
    return this.pane.querySelector(`[data-log-toggle="${name}"]`);
  }

  #listen() {
    document.addEventListener("htmx:afterSettle", (event) => {
      const isWaiting = this.states.size && this.status.dataset.logState === "waiting";
      if (isWaiting && !this.pane.contains(event.target)) this.#tell();
    });
    this.pane.addEventListener("click", (event) => this.#clicked(event.target.closest("button")));
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-show-log]");
      if (!button) return;
      event.preventDefault();
      this.show(this.replicas.length > 1 ? button.dataset.showLog : "", button.dataset.attempt);
      if ("logEnd" in button.dataset) this.#follow(true);
      this.pane.scrollIntoView({ block: "start" });
      this.window.focus({ preventScroll: true });
    });
    this.attempts.addEventListener("change", () => this.show(this.replica, this.attempts.value));
    const filter = this.pane.querySelector("[data-log-filter]");
    filter.addEventListener("input", () => {
      this.view.setFilter(filter.value);
      this.#showEmpty();
    });
    // Reading further up stops following; coming back to the end starts it again.
    this.window.addEventListener("wheel", (event) => {
      if (event.deltaY < 0) this.#follow(false);
    }, { passive: true });
    let touchedAt = 0;
    this.window.addEventListener("touchstart", (event) => {
      touchedAt = event.touches[0].clientY;
    }, { passive: true });
    this.window.addEventListener("touchmove", (event) => {
      if (event.touches[0].clientY > touchedAt) this.#follow(false);
    }, { passive: true });
    this.window.addEventListener("keydown", (event) => {
      if (["ArrowUp", "PageUp", "Home"].includes(event.key)) this.#follow(false);
      if (event.key === "End") this.#follow(true);
    });
    // By the scrollbar, Space, a selection or the browser's search, too. Who leaves the end slowly is still near
    // it: only downwards it starts again.
    let lastTop = this.window.scrollTop;
    this.window.addEventListener("scroll", () => {
      const { scrollTop } = this.window;
      const isUp = scrollTop < lastTop;
      const isDown = scrollTop > lastTop;
      lastTop = scrollTop;
      if (this.view.follows && isUp && !this.view.isAtEnd) this.#follow(false);
      if (!this.view.follows && isDown && this.view.isAtEnd) this.#follow(true);
    }, { passive: true });
  }

  /** @param {HTMLButtonElement | null} button */
  #clicked(button) {
    if (!button) return;
    if ("replica" in button.dataset) this.show(button.dataset.replica);
    else if ("logCopy" in button.dataset) copyText(this.view.asText(this.toggles.times), button);
    else if ("logNew" in button.dataset) this.#follow(true);
    else if (button.dataset.logToggle === "follow") this.#follow(!this.view.follows);
    else if (button.dataset.logToggle && button.getAttribute("aria-disabled") !== "true") {
      this.#toggle(button.dataset.logToggle);
    }
  }

  /** @param {string} name times or wrap */
  #toggle(name) {
    this.toggles[name] = !this.toggles[name];
    try {
      localStorage.setItem(TOGGLES_KEY, JSON.stringify(this.toggles));
    } catch {
      // It holds for this page only.
    }
    this.#showToggles();
    if (this.view.follows) this.#follow(true);
  }

  #storedToggles() {
    try {
      return JSON.parse(localStorage.getItem(TOGGLES_KEY)) ?? {};
    } catch {
      return {};
    }
  }

  #showToggles() {
    const times = this.#toggleButton("times");
    const shown = { ...this.toggles, times: this.toggles.times && !this.#lacksTimes };
    for (const name of ["times", "wrap"]) {
      this.pane.classList.toggle(`log-${name}`, shown[name]);
      this.#toggleButton(name).setAttribute("aria-pressed", String(shown[name]));
    }
    times.setAttribute("aria-disabled", String(this.#lacksTimes));
    times.title = say(this.#lacksTimes ? "log_no_times" : "log_times");
    this.pane.classList.toggle("log-one", this.replicas.length === 1);
  }

  /** Screen readers read new lines out, unless there are more than anybody can listen to. */
  #watchRate() {
    let before = 0;
    setInterval(() => {
      const isCalm = this.lineCount - before <= FLOOD_LINES_PER_S;
      before = this.lineCount;
      const value = isCalm && this.lineCount ? "polite" : "off";
      if (this.window.getAttribute("aria-live") !== value) {
        this.window.setAttribute("aria-live", value);
      }
    }, 1000);
  }
}

endDraft();
new LogPane(document.getElementById("log-pane"));
