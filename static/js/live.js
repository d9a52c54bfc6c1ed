/** Re-reads the parts of a page that have changed, told by one websocket.
 *
 * A part says what it shows: `data-live="job:<id>"`, `data-live="job"` (any), several with blanks,
 * and which revision: `data-revision`. It is re-read by its own `hx-get` on the event `refresh`.
 * A message may be lost, so after each (re)connection one part of each object is asked for again;
 * the server answers 204 when nothing has changed. So it is every few minutes and when somebody comes
 * back to the page, for a message may be lost while the connection stays. A part that could not be
 * read is asked for again by and by, since its change is told once.
 */

import { Socket } from "./socket.js";

const PAUSE_MS = 400; // between two reads of the same part
const SHOW_LOST_AFTER_MS = 4000;
const LOOK_AGAIN_MS = 300_000;
const SEEN_AGAIN_MS = 30_000; // who goes to and fro between tabs asks no more often
const LEAVING_MS = 30_000; // a page that comes has come by then
const REPLACED = -1; // in place of a status: none was waited for
const LONGEST_WAIT_MS = 15_000; // before a part is asked for again that could not be read

/** @type {Map<string, number>} element id -> when it was last asked for */
const askedAt = new Map();
/** @type {Map<string, number>} element id -> timer of the next read */
const timers = new Map();
/** @type {Set<string>} ids of elements that are being read; htmx gives up after 20 s itself */
const busy = new Set();
/** @type {Map<string, number>} id -> the revision that was announced while it was being read */
const again = new Map();
/** @type {Map<string, number>} element id -> how often in a row it could not be read */
const failures = new Map();
/** A form is on its way and another page will come: what this one shows may be gone already. */
let isLeaving = false;
let leavingTimer = 0;
let lookedAt = 0; // when all parts were last asked for

/** @param {HTMLElement} element */
function tokens(element) {
  return element.dataset.live.split(" ");
}

/**
 * @param {HTMLElement} element
 * @param {number} revision that is known to exist; without one the part is read in any case
 */
function refresh(element, revision = Infinity) {
  const { id } = element;
  if (busy.has(id)) {
    again.set(id, Math.max(revision, again.get(id) ?? 0));
    return;
  }
  if (timers.has(id)) return;
  const wait = Math.max(0, (askedAt.get(id) ?? 0) + PAUSE_MS - Date.now());
  const ask = () => {
    timers.delete(id);
    const current = document.getElementById(id);
    if (!current || isLeaving) return;
    askedAt.set(id, Date.now());
    busy.add(id);
    htmx.trigger(current, "refresh");
  };
  timers.set(id, setTimeout(ask, wait));
}

/**
 * @param {string} id of an element whose answer has come
 * @param {number} status of the answer; 0: there was none; `REPLACED`
 */
function answered(id, status) {
  const revision = again.get(id) ?? 0;
  if (!busy.delete(id)) return;
  const hasWaiting = again.delete(id);
  const element = document.getElementById(id);
  if (status === 0 || status === 429 || status >= 500) {
    const count = (failures.get(id) ?? 0) + 1;
    failures.set(id, count);
    const waitMs = Math.min(LONGEST_WAIT_MS, 1000 * 2 ** count) * (0.5 + Math.random() / 2);
    askedAt.set(id, Date.now() + waitMs - PAUSE_MS);
    if (element) refresh(element);
    return;
  }
  failures.delete(id);
  if (!hasWaiting) return;
  // The answer may already show what was announced while it was on its way.
  if (element && !(Number(element.dataset.revision) >= revision)) refresh(element);
}

/**
 * @param {HTMLElement} element
 * @param {string} kind
 * @param {string} id
 * @param {number} revision
 */
function follow(element, kind, id, revision) {
  if (tokens(element).includes(kind)) refresh(element);
  if (!tokens(element).includes(`${kind}:${id}`)) return;
  if ("liveSame" in element.dataset) refresh(element);
  else if (!(Number(element.dataset.revision) >= revision)) refresh(element, revision);
}

/** @param {{kind: string, id: string, revision: number}} frame */
function changed({ kind, id, revision }) {
  for (const element of document.querySelectorAll("[data-live]")) {
    follow(element, kind, id, revision);
  }
}

/** One part of each object that has a revision, and those that change without a new one. */
function recheck() {
  lookedAt = Date.now();
  const seen = new Set();
  for (const element of document.querySelectorAll("[data-live][data-revision]")) {
    const key = element.dataset.live;
    if (!seen.has(key) || "liveSame" in element.dataset) refresh(element);
    seen.add(key);
  }
}

/**
 * Neighbours that show an older revision than a part that came are read as well; so is the part,
 * if it is the older one: the slow answer to an action may come after what it has caused.
 */
function alignNeighbours(element) {
  for (const token of tokens(element)) {
    const [kind, id] = token.split(":");
    const revision = Number(element.dataset.revision);
    if (!id || Number.isNaN(revision)) continue;
    for (const other of document.querySelectorAll(`[data-live~="${token}"][data-revision]`)) {
      const theirs = Number(other.dataset.revision);
      if (theirs < revision) refresh(other, revision);
      if (theirs > revision) refresh(element, theirs);
    }
  }
}

/** @param {number} pauseMs less than that after the last look, there is none */
function lookAgain(pauseMs) {
  if (!document.hidden && Date.now() - lookedAt >= pauseMs) recheck();
}

/** The browser's own Stop, or an answer that is a file, leaves the page as it is and tells nobody. */
function leave() {
  isLeaving = true;
  clearTimeout(leavingTimer);
  leavingTimer = setTimeout(() => {
    if (!isLeaving) return;
    isLeaving = false;
    recheck();
  }, LEAVING_MS);
}

/** Starts listening, on pages of somebody who is signed in. */
export function startLive() {
  const path = document.body.dataset.liveSocket;
  if (!path) return;
  const sign = document.querySelector("[data-live-state]");
  let signTimer = 0;
  const socket = new Socket({
    path: () => path,
    onFrame: (frame) => {
      if (frame.type === "changed") changed(frame);
    },
    onOpen: () => {
      clearTimeout(signTimer);
      sign.hidden = true;
      recheck();
    },
    onLost: (code, waitMs) => {
      clearTimeout(signTimer);
      // Signed out elsewhere: the next read of a part leads to the sign-in page.
      if (waitMs === 0) recheck();
      else signTimer = setTimeout(() => (sign.hidden = false), SHOW_LOST_AFTER_MS);
    },
  });
  document.addEventListener("submit", (event) => {
    if (!event.defaultPrevented && event.target.target !== "_blank") leave();
  });
  // The back button shows this page as it was left.
  window.addEventListener("pageshow", () => (isLeaving = false));
  setInterval(() => lookAgain(LOOK_AGAIN_MS / 2), LOOK_AGAIN_MS);
  document.addEventListener("visibilitychange", () => lookAgain(SEEN_AGAIN_MS));
  document.addEventListener("htmx:configRequest", (event) => {
    const { elt, headers, triggeringEvent } = event.detail;
    if (triggeringEvent?.type === "refresh" && elt.dataset.revision) {
      headers["Homeport-Have"] = elt.dataset.revision;
    }
  });
  // The element that asked may have been replaced by now; its id is the same.
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, requestConfig, xhr } = event.detail;
    if (xhr?.status) answered(requestConfig?.elt?.id ?? elt.id, xhr.status);
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, ({ detail }) => answered(detail.requestConfig.elt.id, 0));
  }
  // One that another took the place of has not failed.
  document.addEventListener("htmx:sendAbort", ({ detail }) => {
    answered(detail.requestConfig.elt.id, REPLACED);
  });
  // The answer to an action takes the place of a part that is being read: what that read brings
  // goes to an element that is gone, and htmx tells nobody of it.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { requestConfig, shouldSwap, target } = event.detail;
    if (!shouldSwap || requestConfig.elt === target || !busy.delete(target.id)) return;
    again.delete(target.id);
    refresh(target);
  });
  document.addEventListener("htmx:load", (event) => {
    const { elt } = event.detail;
    if (elt.dataset?.live) alignNeighbours(elt);
  });
  if (document.querySelector("[data-live]")) socket.connect();
}
