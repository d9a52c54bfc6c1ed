/** Colours of programs: SGR sequences to class names. Pure; knows nothing of the page.
 *
 * Everything that is not SGR was taken out by the server; what is left of it here is dropped too.
 * https://ecma-international.org/publications-and-standards/standards/ecma-48/ (8.3.117)
 */

/**
 * @typedef {object} Style
 * @property {number | null} fg 0..15
 * @property {number | null} bg 0..7
 * @property {Set<string>} marks bold, dim, italic, underline, strike
 */

const MARKS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "strike" };
const ENDS = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 29: ["strike"] };
const SEQUENCE = /\u001b\[([0-9;:]*)m/g;
const CONTROLS = /\u001b(?:\[[0-9;:?]*[ -/]*[@-~])?|[\u0000-\u0008\u000b-\u001f\u007f]/g;

/** @returns {Style} */
export function plainStyle() {
  return { fg: null, bg: null, marks: new Set() };
}

/**
 * One of the 16 colours for one of 256 or of 2^24: near enough, and readable on the pane.
 * @param {number} red 0..255
 * @param {number} green
 * @param {number} blue
 */
function nearest(red, green, blue) {
  const bits = (red > 110 ? 1 : 0) | (green > 110 ? 2 : 0) | (blue > 110 ? 4 : 0);
  const isBright = Math.max(red, green, blue) > 200;
  return bits === 0 ? 8 : bits + (isBright ? 8 : 0);
}

/** @param {number} number 0..255 */
function from256(number) {
  if (number < 16) return number;
  if (number >= 232) return number < 244 ? 8 : 15;
  const level = (step) => (step ? 55 + step * 40 : 0);
  const cube = number - 16;
  return nearest(
    level(Math.floor(cube / 36)),
    level(Math.floor(cube / 6) % 6),
    level(cube % 6),
  );
}

/** Reads what follows 38 or 48; says the colour and how many numbers it took. */
function extended(numbers, at) {
  if (numbers[at] === 5) return [from256(numbers[at + 1] ?? 0), 2];
  if (numbers[at] === 2) {
    return [nearest(numbers[at + 1] ?? 0, numbers[at + 2] ?? 0, numbers[at + 3] ?? 0), 4];
  }
  return [null, 1];
}

/** @param {Style} style is changed @param {string} parameters `1;31` */
function apply(style, parameters) {
  const numbers = parameters.split(/[;:]/).map((part) => Number(part || 0));
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) Object.assign(style, plainStyle());
    else if (code in MARKS) style.marks.add(MARKS[code]);
    else if (code in ENDS) ENDS[code].forEach((mark) => style.marks.delete(mark));
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 90 && code <= 97) style.fg = code - 82;
    else if (code === 39) style.fg = null;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 100 && code <= 107) style.bg = code - 100;
    else if (code === 49) style.bg = null;
    else if (code === 38 || code === 48) {
      const [colour, taken] = extended(numbers, at + 1);
      if (code === 38) style.fg = colour;
      else style.bg = colour === null ? null : colour % 8;
      at += taken;
    }
  }
}

/** @param {Style} style @returns {string} class names, "" for plain text */
function classes({ fg, bg, marks }) {
  const names = [...marks].map((mark) => `sgr-${mark}`);
  if (fg !== null) names.push(`sgr-fg-${fg}`);
  if (bg !== null) names.push(`sgr-bg-${bg}`);
  return names.join(" ");
}

/**
 * @param {string} line
 * @param {Style} style goes on from line to line, and is changed
 * @returns {{text: string, classes: string}[]}
 */
export function segments(line, style) {
  const found = [];
  let from = 0;
  const push = (text) => {
    const clean = text.replace(CONTROLS, "");
    if (clean) found.push({ text: clean, classes: classes(style) });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    push(line.slice(from, match.index));
    apply(style, match[1]);
    from = match.index + match[0].length;
  }
  push(line.slice(from));
  return found;
}
