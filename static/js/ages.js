/** Keeps ages and running durations current, in the words of portal/web/format.py. */

import { say } from "./words.js";

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

/**
 * @param {number} whole seconds
 * @param {number} bigS
 * @param {string} big
 * @param {number} smallS
 * @param {string} small
 */
function pair(whole, bigS, big, smallS, small) {
  const rest = Math.floor((whole % bigS) / smallS);
  const first = `${Math.floor(whole / bigS)} ${big}`;
  return rest ? `${first} ${rest} ${small}` : first;
}

/**
 * 200 -> "3 min 20 s".
 * @param {number} seconds
 * @returns {string}
 */
export function durationText(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) return `${whole} s`;
  if (whole < 10 * MINUTE) return pair(whole, MINUTE, "min", 1, "s");
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min`;
  if (whole < DAY) return pair(whole, HOUR, "h", MINUTE, "min");
  return pair(whole, DAY, "d", HOUR, "h");
}

/**
 * How long ago; null when a date says it better.
 * @param {number} seconds
 * @returns {string | null}
 */
export function ageText(seconds) {
  if (seconds < MINUTE) return say("just_now");
  if (seconds < HOUR) return say("minutes_ago", { count: Math.floor(seconds / MINUTE) });
  if (seconds < DAY) return say("hours_ago", { count: Math.floor(seconds / HOUR) });
  if (seconds < 7 * DAY) return say("days_ago", { count: Math.floor(seconds / DAY) });
  return null;
}

/** @param {Element} element @param {string} text */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Writes all ages and durations anew; says after how many milliseconds to do it again. */
function tick() {
  const now = Date.now();
  let wait = 60_000;
  for (const element of document.querySelectorAll("time[data-age]")) {
    const text = ageText((now - Date.parse(element.dateTime)) / 1000);
    // The server's own words for a date that is older begin its title.
    write(element, text ?? element.title.split(",")[0]);
  }
  for (const element of document.querySelectorAll("time[data-since]")) {
    const seconds = (now - Date.parse(element.dateTime)) / 1000;
    write(element, durationText(seconds));
    // Seconds are shown during the first ten minutes only.
    if (seconds < 10 * MINUTE) wait = 1000;
  }
  for (const element of document.querySelectorAll("time[data-until]")) {
    write(element, durationText((Date.parse(element.dateTime) - now) / 1000));
    wait = 1000;
  }
  // Words for those who have waited for a while.
  for (const element of document.querySelectorAll("[data-show-after]")) {
    element.hidden = now < Date.parse(element.dataset.showAfter);
  }
  return document.hidden ? 60_000 : wait;
}

/** @param {ParentNode} root */
function localClocks(root) {
  for (const element of root.querySelectorAll("time[data-clock]")) {
    const at = new Date(element.dateTime);
    const isToday = at.toDateString() === new Date().toDateString();
    const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
    const day = at.toLocaleDateString([], { day: "numeric", month: "short" });
    write(element, isToday ? time : `${day}, ${time}`);
  }
}

/** Starts the clock of this page. */
export function startAges() {
  let timer = 0;
  let day = new Date().toDateString();
  const run = () => {
    clearTimeout(timer);
    const today = new Date().toDateString();
    if (today !== day) localClocks(document); // what was written without a day is of yesterday
    day = today;
    timer = setTimeout(run, tick());
  };
  localClocks(document);
  run();
  document.addEventListener("visibilitychange", run);
  document.addEventListener("htmx:load", (event) => {
    localClocks(event.detail.elt);
    run();
  });
}
