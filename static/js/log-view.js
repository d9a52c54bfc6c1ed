/** The lines of a log on the page: bounded, in blocks, written once per animation frame at most.
 *
 * A line is text and stays text: everything goes in by `textContent`.
 */

import { plainStyle, segments } from "./ansi.js";
import { say } from "./words.js";

export const MAX_ROWS = 5000;
/** How lines of ours begin, which are none of the program's (jobs/pod/protocol/notices.py). */
const MARK = "[homeport] ";
const BLOCK_ROWS = 250;
const MAX_ROWS_PER_FRAME = 1500;

/**
 * @typedef {object} Row
 * @property {"line" | "skipped"} kind
 * @property {string} replica
 * @property {string} time ISO 8601, "" when unknown
 * @property {string} text without colours
 * @property {{text: string, classes: string}[]} parts
 */

/** @param {string} iso @returns {string} the local time with milliseconds */
export function timeText(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const two = (number) => String(number).padStart(2, "0");
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}

/** @param {Row[]} rows @returns {Row[]} those that a program wrote */
function written(rows) {
  return rows.filter((row) => row.kind === "line" && !row.text.startsWith(MARK));
}

/** What a terminal would show of a line in which a program went back to its beginning. */
function afterReturn(text) {
  const parts = text.replace(/\r+$/, "").split("\r");
  return parts.findLast((part) => part !== "") ?? "";
}

export class LogView {
  /**
   * @param {HTMLElement} host scrolls
   * @param {string[]} replicas in the order of their colours
   * @param {(shown: number) => void} onRows called after rows were written
   */
  constructor(host, replicas, onRows) {
    this.host = host;
    this.replicas = replicas;
    this.onRows = onRows;
    this.filter = "";
    this.follows = true;
    this.clear();
  }

  /** Forgets everything, for another replica or a connection from the beginning. */
  clear() {
    /** @type {Row[]} all that is kept, also what the filter hides */
    this.rows = [];
    /** @type {Row[]} not yet on the page */
    this.pending = [];
    this.trimmed = false;
    /** Of all lines that came: what is archived has none. */
    this.hasTimes = false;
    /** Lines that the log has and this has not; NaN: nobody has counted them. */
    this.absent = 0;
    this.shown = 0;
    this.frame = 0;
    /** @type {Map<string, Row>} replica -> its line that has no end yet */
    this.unfinished = new Map();
    /** @type {WeakMap<Row, HTMLElement>} of unfinished lines */
    this.elements = new WeakMap();
    /** @type {Map<string, import("./ansi.js").Style>} */
    this.styles = new Map();
    this.host.replaceChildren();
  }

  /** How far the last line of a replica has come, until the next lines of it stand in its place.
   * @param {string} replica @param {{t: string, text: string}} line
   */
  showUnfinished(replica, { t, text }) {
    const parts = segments(afterReturn(text), plainStyle());
    const plain = parts.map((part) => part.text).join("");
    let row = this.unfinished.get(replica);
    this.hasTimes ||= Boolean(t);
    if (row) Object.assign(row, { text: plain, parts });
    if (row && this.#isGone(row)) {
      this.#dropUnfinished(replica);
      row = undefined;
    }
    if (!row) {
      const fresh = { kind: "line", replica, time: t ?? "", text: plain, parts };
      this.unfinished.set(replica, fresh);
      this.pending.push(fresh);
      this.#schedule();
      return;
    }
    const before = this.elements.get(row);
    if (!before?.isConnected) return;
    const element = this.#lineElement(row);
    before.replaceWith(element);
    this.elements.set(row, element);
  }

  /** Whether a row was trimmed, in part at least: other replicas may write much while a line is open.
   * @param {Row} row
   */
  #isGone(row) {
    if (this.pending.includes(row)) return false;
    const element = this.elements.get(row);
    return !this.rows.includes(row) || (element && !element.isConnected && this.#matches(row));
  }

  /** @param {string} replica */
  #dropUnfinished(replica) {
    const row = this.unfinished.get(replica);
    if (!row) return;
    this.unfinished.delete(replica);
    for (const rows of [this.pending, this.rows]) {
      const at = rows.lastIndexOf(row);
      if (at >= 0) rows.splice(at, 1);
    }
    const element = this.elements.get(row);
    if (!element?.isConnected) return;
    element.remove();
    this.shown -= 1;
  }

  /** @param {string} replica @param {{t: string, text: string}[]} lines */
  addLines(replica, lines) {
    this.#dropUnfinished(replica);
    if (!this.styles.has(replica)) this.styles.set(replica, plainStyle());
    const style = this.styles.get(replica);
    for (const { t, text } of lines) {
      const parts = segments(afterReturn(text), style);
      const plain = parts.map((part) => part.text).join("");
      this.hasTimes ||= Boolean(t);
      this.pending.push({ kind: "line", replica, time: t ?? "", text: plain, parts });
    }
    this.#schedule();
  }

  /** @param {string} replica @param {number} count */
  addSkipped(replica, count) {
    const key = replica && this.replicas.length > 1 ? "log_skipped_of" : "log_skipped";
    const text = say(key, { replica, count: count.toLocaleString() });
    this.absent += count;
    this.pending.push({ kind: "skipped", replica, time: "", text, parts: [] });
    this.#schedule();
  }

  /** Before the first line of a replica. @param {number | null} count null: nobody has counted them */
  addLeftOut(count) {
    this.absent += count ?? Number.NaN;
  }

  /** Shows only lines with this text. @param {string} text */
  setFilter(text) {
    this.filter = text.toLowerCase();
    this.#rewrite();
  }

  /** @returns {{found: number, count: number, total: number}} of how many lines the filter matches how many, and how
   * many lines the log has; NaN: more, and nobody has counted them
   */
  get found() {
    const lines = written(this.rows);
    return {
      found: lines.filter((row) => this.#matches(row)).length,
      count: lines.length,
      total: lines.length + this.absent,
    };
  }

  /** @param {boolean} follows whether the newest line stays in sight */
  setFollows(follows) {
    this.follows = follows;
    if (follows) this.#toEnd();
  }

  get isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.host;
    return scrollHeight - scrollTop - clientHeight < 40;
  }

  /** @param {boolean} withTimes @returns {string} what is shown, for the clipboard */
  asText(withTimes) {
    const several = this.replicas.length > 1;
    return this.rows
      .filter((row) => this.#matches(row))
      .map((row) => {
        const time = withTimes && row.time ? `${row.time} ` : "";
        return `${time}${several && row.replica ? `${row.replica} | ` : ""}${row.text}`;
      })
      .join("\n");
  }

  /** @param {Row} row */
  #matches(row) {
    return !this.filter || row.text.toLowerCase().includes(this.filter);
  }

  #schedule() {
    // A hidden tab draws no frames: what would be trimmed anyway is trimmed here.
    if (this.pending.length > 2 * MAX_ROWS) {
      const gone = this.pending.splice(0, this.pending.length - MAX_ROWS);
      this.absent += written(this.rows).length + written(gone).length;
      this.rows = [];
      this.trimmed = true;
    }
    this.frame ||= requestAnimationFrame(() => this.#write());
  }

  #write() {
    this.frame = 0;
    const fresh = this.pending.splice(0, MAX_ROWS_PER_FRAME);
    this.rows.push(...fresh);
    this.#append(fresh);
    this.#trim();
    if (this.follows) this.#toEnd();
    this.onRows(fresh.length);
    if (this.pending.length) this.#schedule();
  }

  #rewrite() {
    this.host.replaceChildren();
    this.shown = 0;
    this.#append(this.rows);
    if (this.trimmed) this.#noteTrimmed();
    if (this.follows) this.#toEnd();
    this.onRows(0);
  }

  /** @param {Row[]} rows */
  #append(rows) {
    let block = this.host.lastElementChild;
    if (!block?.classList.contains("log-block")) block = null;
    for (const row of rows) {
      if (!this.#matches(row)) continue;
      if (!block || block.childElementCount >= BLOCK_ROWS) {
        block = document.createElement("div");
        block.className = "log-block";
        this.host.append(block);
      }
      const element = row.kind === "line" ? this.#lineElement(row) : this.#noteElement(row.text);
      if (this.unfinished.get(row.replica) === row) this.elements.set(row, element);
      block.append(element);
      this.shown += 1;
    }
  }

  /** @param {Row} row */
  #lineElement(row) {
    const element = document.createElement("div");
    const index = Math.max(0, this.replicas.indexOf(row.replica));
    element.className = `log-row hue-${index % 8}`;
    const who = document.createElement("span");
    who.className = "log-who";
    who.textContent = row.replica;
    const time = document.createElement("span");
    time.className = "log-time";
    time.textContent = timeText(row.time);
    const text = document.createElement("span");
    text.className = "log-text";
    this.#fillText(text, row);
    element.append(who, time, text);
    return element;
  }

  /** @param {HTMLElement} element @param {Row} row */
  #fillText(element, row) {
    if (this.filter) {
      this.#fillMarked(element, row.text);
      return;
    }
    for (const part of row.parts) {
      if (!part.classes) {
        element.append(part.text);
        continue;
      }
      const span = document.createElement("span");
      span.className = part.classes;
      span.textContent = part.text;
      element.append(span);
    }
  }

  /** @param {HTMLElement} element @param {string} text */
  #fillMarked(element, text) {
    const lower = text.toLowerCase();
    let from = 0;
    for (;;) {
      const at = lower.indexOf(this.filter, from);
      if (at < 0) break;
      const mark = document.createElement("mark");
      mark.textContent = text.slice(at, at + this.filter.length);
      element.append(text.slice(from, at), mark);
      from = at + this.filter.length;
    }
    element.append(text.slice(from));
  }

  /** @param {string} text */
  #noteElement(text) {
    const element = document.createElement("div");
    element.className = "log-note log-skipped";
    element.textContent = text;
    return element;
  }

  #noteTrimmed() {
    if (this.host.firstElementChild?.classList.contains("log-trimmed")) return;
    const note = document.createElement("div");
    note.className = "log-note log-trimmed";
    note.textContent = say("log_trimmed");
    this.host.prepend(note);
  }

  /** Takes whole blocks off the top; who reads further down keeps the same lines in sight. */
  #trim() {
    if (this.rows.length > MAX_ROWS + BLOCK_ROWS) {
      this.absent += written(this.rows.splice(0, this.rows.length - MAX_ROWS)).length;
      this.trimmed = true;
    }
    let removed = 0;
    for (;;) {
      const first = this.host.querySelector(".log-block");
      if (!first || this.shown - first.childElementCount < MAX_ROWS) break;
      removed += first.offsetHeight;
      this.shown -= first.childElementCount;
      first.remove();
    }
    if (this.trimmed) this.#noteTrimmed();
    if (removed && !this.follows) this.host.scrollTop -= removed;
  }

  #toEnd() {
    this.host.scrollTop = this.host.scrollHeight;
  }
}
