// Elements and words. Text from the cluster becomes text nodes, never markup.

export function element(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== "") made.textContent = text;
  return made;
}

export const byId = (id) => document.getElementById(id);

let today = () => Date.now() / 1000;   // a report is read on another day than it is of
export const setToday = (call) => { today = call; };
const day = (time_s) => new Date(time_s * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
const time = (time_s) => new Date(time_s * 1000).toTimeString().slice(0, 8);

// The time of day; of another day than today with its date.
export function clock(time_s) {
  const on = day(time_s);
  return on === day(today()) ? time(time_s) : `${on} ${time(time_s).slice(0, 5)}`;
}

// On an axis the date stands at midnight.
export const axisClock = (time_s) => (time(time_s) === "00:00:00" ? day(time_s) : time(time_s));

export function duration(s) {
  const two = (n) => String(n).padStart(2, "0");
  if (s === 0) return "0 s";
  if (Math.abs(s) < 1e-3) return `${Number((s * 1e6).toPrecision(3))} µs`;
  if (Math.abs(s) < 0.9995) return `${Number((s * 1e3).toPrecision(3))} ms`;
  if (Math.abs(s) < 99.5) return `${Number(s.toPrecision(3))} s`;
  const minutes = Math.floor(Math.round(s) / 60), hours = Math.floor(minutes / 60);
  const rest = (n, whole, words) => (n ? words : whole);
  if (hours < 1) return rest(Math.round(s) % 60, `${minutes} min`, `${minutes}m ${two(Math.round(s) % 60)}s`);
  if (hours < 48) return rest(minutes % 60, `${hours} h`, `${hours}h ${two(minutes % 60)}m`);
  return rest(hours % 24, `${Math.floor(hours / 24)} days`, `${Math.floor(hours / 24)}d ${two(hours % 24)}h`);
}

export const bytes = (n) => (n >= 2 ** 30 ? `${(n / 2 ** 30).toFixed(1)} GiB` : `${Math.round(n / 2 ** 20)} MiB`);

// Names that stand behind a kind of decision in the stylesheet.
export const kind = (what) => (/^[a-z]+$/.test(what) ? what : what.split(" ").pop());

// Colours of the theme, for canvases; read again when the theme changes.
const names = ["ink", "soft", "faint", "rule", "card", "idle", "accent", "best", "best-wash", "warn", "bad", "wash",
  "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
export const colour = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of names) colour[name] = style.getPropertyValue(`--${name}`).trim();
}
readColours();
export function whenThemeChanges(call) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    call();
  });
}

// Black or white, whichever can be read better on a colour (WCAG 2.1, relative luminance).
export function inkOn(hex) {
  const [r, g, b] = [1, 3, 5].map((k) => {
    const c = parseInt(hex.slice(k, k + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

// A text as it fits into so many pixels, shortened if need be; "" if not even a few letters do.
export function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle; else high = middle - 1;
  }
  return low < 6 ? "" : `${text.slice(0, low).trimEnd()}…`;
}

// A canvas as large as it is shown, in CSS pixels; returns its context and size.
export function prepared(canvas, height = canvas.clientHeight) {
  const width = canvas.clientWidth, scale = devicePixelRatio || 1;
  const w = Math.round(width * scale), h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    if (canvas.id === "gantt") canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
  return [pen, width, height];
}
