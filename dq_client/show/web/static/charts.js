// Step charts of the whole cluster over the time shown, made of the jobs' own times.

import { jobs, now, status, WAITING, whenChanged } from "./cluster.js";
import { byId, clock, colour, duration, prepared, whenThemeChanges } from "./text.js";
import { shown, whenMoved } from "./time.js";

const EVERY_MS = 500;
const LATEST = 20; // ended jobs whose turnaround is averaged
let inUse = [], waiting = [], turnaround = [], counted = -EVERY_MS, stale = true, asked = false;

// [[time, change], ...] -> [[time, value], ...] by time. What happens at the same time is one step:
// a job that starts when it is submitted has not waited.
function steps(changes) {
  changes.sort((a, b) => a[0] - b[0]);
  const found = [];
  let value = 0;
  for (const [t, by] of changes) {
    value += by;
    if (found.length && found.at(-1)[0] === t) found.at(-1)[1] = value;
    else found.push([t, value]);
  }
  return found;
}

// Mean turnaround of the latest jobs that had ended by then.
function means(ended) {
  ended.sort((a, b) => a[0] - b[0]);
  let sum = 0;
  return ended.map(([t, took], k) => {
    sum += took - (k >= LATEST ? ended[k - LATEST][1] : 0);
    return [t, sum / Math.min(k + 1, LATEST)];
  });
}

function count() {
  stale = false;
  counted = performance.now();
  const used = [], queued = [], ended = [];
  for (const job of jobs.values()) {
    for (const place of job.places) {
      used.push([place.since_s, place.size]);
      if (place.until_s !== null) used.push([place.until_s, -place.size]);
    }
    if (job.end_s !== null && job.places.length) ended.push([job.end_s, job.end_s - job.submit_s]);
    queued.push([job.submit_s, 1]);
    const left = job.places[0]?.since_s ?? job.start_s ?? job.end_s;
    if (left !== null && left !== undefined) queued.push([left, -1]);
    if (WAITING.has(job.state) && job.places.length) queued.push([job.places.at(-1).until_s, 1]);
  }
  inUse = steps(used);
  waiting = steps(queued);
  turnaround = means(ended);
}

export function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (stale && performance.now() - counted > EVERY_MS) count();
    draw(byId("use"), inUse, colour.accent, status.processors ?? 0);
    draw(byId("queue"), waiting, colour.warn, 0);
    draw(byId("turnaround"), turnaround, colour.best, 0, duration, 0.001);
  });
}

function firstAfter(line, t) {
  let low = 0, high = line.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line[middle][0] <= t) low = middle + 1; else high = middle;
  }
  return low;
}

function draw(canvas, line, ink, limit, words = String, least = 1) {
  if (!canvas) return; // a report on one job
  const [pen, width, height] = prepared(canvas);
  const { from, to } = shown(), foot = height - 4, head = 8;
  const end = Math.min(to, now()), first = firstAfter(line, from), after = firstAfter(line, end);
  let most = Math.max(limit, least), value = first ? line[first - 1][1] : 0;
  for (let k = first; k < after; k++) most = Math.max(most, line[k][1]);
  most = Math.max(most, value);
  const top = line.length || limit ? words(most) : "–";
  const left = Math.max(words === String ? 34 : 66, pen.measureText(top).width + 8);
  const x = (t) => left + ((t - from) / (to - from)) * (width - left);
  const y = (v) => foot - (v / most) * (foot - head);
  pen.fillStyle = colour.soft;
  pen.textBaseline = "middle";
  pen.fillText(top, 0, head);
  pen.fillText("0", 0, foot - 4);
  pen.fillStyle = colour.rule;
  pen.fillRect(left, foot, width - left, 1);
  // Nothing has ended yet: there is no mean, which is not one of 0.
  const known = words === String || first > 0, begin = known ? left : first < after ? x(line[first][0]) : x(end);
  if (!known && first < after) value = line[first][1];
  pen.beginPath();
  pen.moveTo(begin, y(value));
  for (let k = first; k < after; k++) {
    pen.lineTo(x(line[k][0]), y(value));
    value = line[k][1];
    pen.lineTo(x(line[k][0]), y(value));
  }
  pen.lineTo(x(end), y(value));
  pen.strokeStyle = ink;
  pen.lineWidth = 1.75;
  pen.stroke();
  pen.lineTo(x(end), foot);
  pen.lineTo(begin, foot);
  pen.fillStyle = colour.wash;
  pen.fill();
  if (limit) {
    pen.strokeStyle = colour.faint;
    pen.setLineDash([6, 4]);
    pen.strokeRect(left, y(limit), width - left, 0);
    pen.setLineDash([]);
  }
  canvas.setAttribute("aria-label", `${canvas.parentElement.firstChild.textContent}: ${words(value)} at ${clock(end)}`);
}

whenMoved(redraw);
whenThemeChanges(redraw);
whenChanged((news) => {
  if (news.whole || news.jobs.length || news.gone.length) stale = true;
  redraw();
});
addEventListener("resize", redraw);
