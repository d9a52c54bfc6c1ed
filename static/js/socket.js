/** A websocket that comes back by itself. */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
// What is accepted and ended at once has not come about: a portal that is full does so.
const LASTING_MS = 10_000;
// The server says that coming back is of no use (4401: signed out, 4404: not there).
const FINAL_CODES = new Set([4401, 4403, 4404]);

/**
 * @typedef {object} SocketHandlers
 * @property {() => string} path path and query of the next connection
 * @property {(frame: any) => void} onFrame
 * @property {() => void} onOpen
 * @property {(code: number, waitMs: number) => void} onLost `waitMs` 0: it will not be tried again
 */

export class Socket {
  /** @param {SocketHandlers} handlers */
  constructor(handlers) {
    this.handlers = handlers;
    this.tries = 0;
    this.openedAt = 0; // 0: it is not open
    this.timer = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.isDone = false;
    // The network is back: do not wait for the timer.
    window.addEventListener("online", () => this.#again());
    // A browser that sleeps closes sockets without telling.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.#again();
    });
  }

  /** Connects now; an older connection is dropped silently. */
  connect() {
    clearTimeout(this.timer);
    this.#drop();
    this.isDone = false;
    const origin = location.origin.replace(/^http/, "ws");
    const socket = new WebSocket(origin + this.handlers.path());
    this.socket = socket;
    socket.onopen = () => {
      this.openedAt = Date.now();
      this.handlers.onOpen();
    };
    socket.onmessage = (event) => this.handlers.onFrame(JSON.parse(event.data));
    socket.onclose = (event) => this.#lost(event.code);
  }

  /** Closes for good: everything was said. */
  finish() {
    this.isDone = true;
    clearTimeout(this.timer);
    this.#drop();
  }

  /** Sends a text; only while it is open.
   * @param {string} text
   */
  send(text) {
    this.socket.send(text);
  }

  #drop() {
    this.openedAt = 0;
    if (!this.socket) return;
    this.socket.onclose = null;
    this.socket.onmessage = null;
    this.socket.close();
    this.socket = null;
  }

  /** @param {number} code */
  #lost(code) {
    this.socket = null;
    if (this.openedAt && Date.now() - this.openedAt >= LASTING_MS) this.tries = 0;
    this.openedAt = 0;
    if (FINAL_CODES.has(code)) this.isDone = true;
    if (this.isDone) {
      this.handlers.onLost(code, 0);
      return;
    }
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.tries);
    const waitMs = longest * (0.5 + Math.random() / 2);
    this.tries += 1;
    this.timer = setTimeout(() => this.connect(), waitMs);
    this.handlers.onLost(code, waitMs);
  }

  #again() {
    if (!this.isDone && !this.socket) this.connect();
  }
}
