/** The texts of our scripts, as the page gives them in the visitor's language (_words.html). */

const words = JSON.parse(document.querySelector('meta[name="words"]').content);

/**
 * A text with its `{placeholders}` filled in.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function say(key, values = {}) {
  return words[key].replace(/\{(\w+)\}/g, (whole, name) =>
    name in values ? String(values[name]) : whole,
  );
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/**
 * Bytes as portal/web/format.py writes them.
 * @param {number} size
 * @returns {string}
 */
export function bytesText(size) {
  let unit = 0;
  let shown = size;
  while (shown >= 1023.95 && unit < UNITS.length - 1) {
    shown /= 1024;
    unit += 1;
  }
  const digits = unit ? shown.toFixed(1).replace(/\.0$/, "") : String(size);
  return `${digits} ${UNITS[unit]}`;
}
