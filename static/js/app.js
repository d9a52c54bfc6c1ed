/** What every page does. */

import { startAges } from "./ages.js";
import { startCopying } from "./copy.js";
import { startDialogs } from "./dialogs.js";
import { startKeeping } from "./keep.js";
import { startLive } from "./live.js";
import { startHolding } from "./press.js";
import { startToasts } from "./toasts.js";

startAges();
startCopying();
startDialogs();
startHolding();
startKeeping();
startToasts();
// Modules run before htmx has looked at the page; asking for a part would reach nobody yet.
if (document.readyState === "complete") startLive();
else document.addEventListener("DOMContentLoaded", startLive);
