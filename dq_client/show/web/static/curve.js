// The sweet-spot curve of one job: time of an iteration by processors, in the order of its stays.

import { colour, duration, prepared } from "./text.js";

export function drawCurve(canvas, job) {
  const stays = job.sizes.filter((stay) => stay.iteration_time_s !== null);
  const sizes = [...new Set(stays.map((s) => s.processors))].sort((a, b) => a - b);
  canvas.hidden = sizes.length < 2;   // as in a report: one point is no curve
  if (canvas.hidden) return;
  const [pen, width, height] = prepared(canvas);
  const left = 58, right = 26, head = 22, foot = height - 34;
  const low = Math.log(sizes[0]), high = Math.log(sizes.at(-1));
  const slowest = Math.max(...stays.flatMap(between));
  const x = (n) => left + 10 + ((Math.log(n) - low) / (high - low)) * (width - left - right - 20);
  const y = (t) => foot - (t / slowest) * (foot - head);
  pen.textBaseline = "middle";
  pen.fillStyle = colour.soft;
  for (const t of [0, slowest / 2, slowest]) {
    pen.fillStyle = colour.rule;
    pen.fillRect(left, Math.round(y(t)), width - left, 1);
    pen.fillStyle = colour.soft;
    pen.fillText(t ? duration(t) : "0", 0, y(t), left - 6);
  }
  drawSizes(pen, sizes, x, foot, job.sweet_spot);
  drawLegend(pen, width, foot + 27);
  drawPerfect(pen, stays[0], sizes, x, y);
  const places = positions(stays, x, y, (left + width - right) / 2);
  drawWay(pen, places);
  drawSpread(pen, stays, sizes, x, y);
  places.forEach((place, k) => drawStay(pen, place, k, job.sweet_spot));
  pen.textAlign = "left";
  const spot = job.sweet_spot === null ? "not found yet" : `${job.sweet_spot} processors`;
  canvas.setAttribute("aria-label",
    `Time of an iteration: ${stays.map((s) => `${s.processors}: ${duration(s.iteration_time_s)}`).join(", ")}; sweet spot ${spot}`);
}

function drawSizes(pen, sizes, x, foot, spot) {
  pen.textAlign = "center";
  let beyond = -Infinity;
  for (const n of sizes) {
    pen.fillStyle = n === spot ? colour.best : colour.soft;
    if (n !== spot && x(n) - beyond < 28) continue;
    pen.fillText(n === spot ? `★ ${n}` : String(n), x(n), foot + 12);
    beyond = x(n);
  }
}

const LEGEND = ["processors; numbered in order; dashed: shrink; dotted: perfect speed-up", "processors; dotted: perfect speed-up"];

function drawLegend(pen, width, y) {
  pen.fillStyle = colour.faint;
  const fits = LEGEND.find((words) => pen.measureText(words).width <= width) ?? "processors";
  pen.fillText(fits, width / 2, y);
}

// Perfect speed-up from the first size on: twice the processors, half the time.
function drawPerfect(pen, first, sizes, x, y) {
  const work = first.iteration_time_s * first.processors, low = Math.max(sizes[0], first.processors);
  pen.strokeStyle = colour.faint;
  pen.lineWidth = 1.5;
  pen.setLineDash([2, 5]);
  pen.beginPath();
  for (let k = 0; k <= 40; k++) {
    const n = low * (sizes.at(-1) / low) ** (k / 40);
    pen[k ? "lineTo" : "moveTo"](x(n), y(work / n));
  }
  pen.stroke();
  pen.setLineDash([]);
}

const RADIUS = 9, BESIDE_MAX = 3;

// Where each stay is drawn: beside those at its size that it would hide, towards the middle.
export function positions(stays, x, y, middle) {
  const found = [];
  for (const { processors: size, iteration_time_s: t } of stays) {
    const py = y(t), beside = found.filter((other) => other.size === size && Math.abs(other.py - py) < 2 * RADIUS - 2).length;
    found.push({ size, py, px: x(size) + (x(size) > middle ? -1 : 1) * Math.min(beside, BESIDE_MAX) * (2 * RADIUS + 1) });
  }
  return found;
}

function drawWay(pen, places) {
  for (let k = 1; k < places.length; k++) {
    const a = places[k - 1], b = places[k], back = b.size < a.size;
    pen.strokeStyle = back ? colour.warn : colour.accent;
    pen.setLineDash(back ? [6, 5] : []);
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(a.px, a.py);
    pen.lineTo(b.px, b.py);
    pen.stroke();
  }
  pen.setLineDash([]);
}

// A stay's time, and between which two the middle half of its iterations lies.
const between = (stay) => [stay.iteration_time_s, ...(stay.iteration_spread_s ?? [])];

// Of all stays at one size.
function drawSpread(pen, stays, sizes, x, y) {
  pen.strokeStyle = colour.faint;
  pen.lineWidth = 1.5;
  for (const n of sizes) {
    const times = stays.filter((s) => s.processors === n).flatMap(between);
    const slow = y(Math.max(...times)), fast = y(Math.min(...times));
    if (fast - slow < 2) continue;
    pen.beginPath();
    pen.moveTo(x(n), slow);
    pen.lineTo(x(n), fast);
    pen.moveTo(x(n) - 5, slow);
    pen.lineTo(x(n) + 5, slow);
    pen.moveTo(x(n) - 5, fast);
    pen.lineTo(x(n) + 5, fast);
    pen.stroke();
  }
}

function drawStay(pen, { size, px, py }, k, spot) {
  pen.fillStyle = size === spot ? colour.best : colour.accent;
  pen.strokeStyle = colour.card;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(px, py, RADIUS, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
  pen.fillStyle = colour.card;
  pen.fillText(String(k + 1), px, py + 0.5);
}
