// Nodes over time. Only what can be seen is drawn: the nodes in the scrolled part, the blocks in the
// time shown.

import { colourOf, jobs, nameOf, nodes, now, whenChanged } from "./cluster.js";
import { axisClock, byId, clock, colour, duration, element, fitted, inkOn, prepared, whenThemeChanges } from "./text.js";
import { goLive, pan, shown, ticks, whenMoved, zoom } from "./time.js";

const AXIS = 22;
const canvas = byId("gantt"), scroll = byId("gantt-scroll"), space = byId("gantt-space");
const tip = document.body.appendChild(element("div", "tip"));
tip.hidden = true;
let blocks = new Map();       // node -> its blocks by their beginning
let order = [];               // names of the nodes shown
let stale = true, asked = false;
let chosen = 0, choose = () => {};
let last = null;              // what was drawn where, for the pointer

export function onChoice(call) { choose = call; }
export function mark(job) { chosen = job; redraw(); }

const collator = new Intl.Collator("en", { numeric: true });

function collect() {
  stale = false;
  blocks = new Map();
  for (const job of jobs.values()) {
    job.places.forEach((place, k) => {
      for (const [node, first, lastSlot] of place.slots) {
        let mine = blocks.get(node);
        if (!mine) blocks.set(node, (mine = []));
        // A resize is a seam: the job had other processors until this moment.
        const seam = k > 0 && job.places[k - 1].until_s === place.since_s;
        mine.push({ from: place.since_s, to: place.until_s, first, last: lastSlot, job: job.id, seam });
      }
    });
  }
  let count = 0;
  for (const mine of blocks.values()) {
    mine.sort((a, b) => a.from - b.from);
    count += mine.length;
  }
  canvas.dataset.blocks = String(count);
}

// Nodes that are there, and others that had a job in the time shown.
function chooseNodes(view) {
  const seen = (name) => (blocks.get(name) ?? []).some((b) => b.from <= view.to && (b.to ?? now()) >= view.from);
  order = [...nodes.values()].filter(({ name, state }) => (state !== "lost" && state !== "left") || seen(name))
    .map(({ name }) => name).sort(collator.compare);
}

function rowHeight() {
  if (!order.length) return 22;
  const most = Math.max(...[...nodes.values()].map((n) => n.processors), 1);
  const wish = Math.min(60, Math.max(18, most * 5));
  return order.length * wish <= 440 ? Math.min(60, Math.max(wish, Math.min(34, 300 / order.length))) : Math.min(wish, 24);
}

export function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function draw() {
  if (stale) collect();
  const view = shown();
  chooseNodes(view);
  const row = rowHeight(), whole = order.length * row;
  const height = Math.min(whole + AXIS, matchMedia("(max-width: 640px)").matches ? 330 : 450);
  const seen = height - AXIS;
  scroll.style.height = `${height}px`;
  // The canvas stays in place while the space below it is scrolled.
  space.style.height = `${Math.max(0, whole - seen)}px`;
  const [pen, width] = prepared(canvas, height);
  const top = Math.min(scroll.scrollTop, Math.max(0, whole - seen));
  const left = width < 500 ? 54 : 96, scale = (width - left) / (view.to - view.from);
  const x = (t) => left + (t - view.from) * scale;
  last = { row, top, left, scale, from: view.from, seen };
  const begin = Math.max(0, Math.floor(top / row)), end = Math.min(order.length, Math.ceil((top + seen) / row));
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, width, seen);
  pen.clip();
  for (let k = begin; k < end; k++) drawNode(pen, order[k], k * row - top, row, { x, view, left, width });
  pen.restore();
  drawAxis(pen, seen, left, width, view, x);
}

function drawNode(pen, name, y, row, { x, view, left, width }) {
  const node = nodes.get(name), count = Math.max(1, node.processors);
  const gap = row > 14 ? 3 : 1, inner = row - gap;
  pen.fillStyle = node.state === "lost" || node.state === "left" ? colour.rule : colour.idle;
  pen.fillRect(left, y, width - left, inner);
  const slot = inner / count, nowX = x(now());
  let edge = -1, edgeLane = -1;
  for (const b of blocks.get(name) ?? []) {
    if (b.from > view.to) break;
    const to = b.to ?? now();
    if (to < view.from) continue;
    const x0 = Math.max(left, x(b.from)), x1 = Math.min(width, Math.max(x(to), x0 + 1));
    // Many that end within the same pixel are one to the eye.
    if (x1 - x0 <= 1 && Math.floor(x0) === edge && b.first === edgeLane) continue;
    edge = Math.floor(x0);
    edgeLane = b.first;
    const y0 = y + b.first * slot, h = Math.max(1, (Math.min(b.last, count - 1) - b.first + 1) * slot);
    const fill = colour[`c${colourOf(b.job)}`], pale = chosen && chosen !== b.job;
    pen.globalAlpha = pale ? 0.35 : 1;
    pen.fillStyle = fill;
    pen.fillRect(x0, y0, x1 - x0, h);
    pen.globalAlpha = 1;
    if (b.seam && b.from >= view.from) {
      pen.fillStyle = colour.card;
      pen.fillRect(x0, y0, 2, h);
      pen.fillStyle = colour.ink;
      pen.fillRect(x0 + 2, y0, 1, h);
    }
    if (h >= 12 && x1 - x0 > 26) {
      const room = x1 - x0 - 10, named = `${b.job} ${nameOf(jobs.get(b.job))}`;
      pen.fillStyle = pale ? colour.ink : inkOn(fill);
      pen.textBaseline = "middle";
      pen.fillText(fitted(pen, named, room) || String(b.job), x0 + 6, y0 + h / 2 + 0.5, room);
    }
  }
  if (node.drain || node.state === "draining" || node.state === "empty") hatch(pen, Math.max(left, x(node.drain?.asked_s ?? view.from)), y, Math.min(width, nowX), inner);
  pen.fillStyle = node.state === "up" ? colour.soft : node.state === "lost" ? colour.bad : colour.warn;
  pen.textBaseline = "middle";
  pen.fillText(name, 2, y + inner / 2, left - 8);
}

// A node that drains: stripes over what is left on it.
function hatch(pen, from, y, to, height) {
  if (to <= from) return;
  pen.save();
  pen.beginPath();
  pen.rect(from, y, to - from, height);
  pen.clip();
  pen.strokeStyle = colour.warn;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (let d = from - height; d < to; d += 9) {
    pen.moveTo(d, y + height);
    pen.lineTo(d + height, y);
  }
  pen.stroke();
  pen.restore();
}

function drawAxis(pen, y, left, width, view, x) {
  pen.textBaseline = "top";
  for (const t of ticks(view.from, view.to, width - left)) {
    pen.fillStyle = colour.rule;
    pen.fillRect(Math.round(x(t)), y, 1, 5);
    pen.fillStyle = colour.soft;
    const text = axisClock(t), half = pen.measureText(text).width / 2;
    if (x(t) - half > left - 8 && x(t) + half < width) pen.fillText(text, x(t) - half, y + 7);
  }
}

function at(event) {
  if (!last) return null;
  const box = canvas.getBoundingClientRect();
  const px = event.clientX - box.left, py = event.clientY - box.top;
  const time = last.from + (px - last.left) / last.scale;
  if (py > last.seen || px < last.left) return { time };
  const k = Math.floor((py + last.top) / last.row), name = order[k];
  if (name === undefined) return { time };
  const slot = Math.floor(((py + last.top - k * last.row) / last.row) * Math.max(1, nodes.get(name).processors));
  const block = (blocks.get(name) ?? []).find(
    (b) => b.from <= time && time <= (b.to ?? now()) && b.first <= slot && slot <= b.last);
  return { time, name, block };
}

function showTip(event) {
  const found = at(event);
  tip.hidden = !found?.name;
  if (tip.hidden) return;
  const node = nodes.get(found.name), { block } = found;
  if (!block) {
    tip.textContent = `${found.name}, idle at ${clock(found.time)}${node.state === "up" ? "" : `, ${node.state}`}`;
  } else tip.textContent = figures(jobs.get(block.job), block, found.name);
  const { offsetWidth: wide, offsetHeight: high } = tip, { clientWidth } = document.documentElement, by = 14;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + by, clientWidth - wide - 4))}px`;
  tip.style.top = `${event.clientY + by + high < innerHeight ? event.clientY + by : event.clientY - by - high}px`;
}

// Name, size, time of an iteration, and when the job was there.
function figures(job, block, node) {
  const size = job.places.find((place) => place.since_s === block.from)?.size ?? job.processors;
  const stay = job.sizes.findLast((each) => each.since_s <= block.from + 1e-3);
  const each = stay?.iteration_time_s ? `, ${duration(stay.iteration_time_s)} per iteration` : "";
  return `${nameOf(job)} (job ${job.id}, ${job.state})\n${size} processor${size === 1 ? "" : "s"}${each}\n`
    + `${node}, ${clock(block.from)} to ${block.to ? clock(block.to) : "now"}: ${duration((block.to ?? now()) - block.from)}`;
}

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, moved: false };
  tip.hidden = true;
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) { showTip(event); return; }
  const by = event.clientX - drag.x;
  if (!drag.moved && Math.abs(by) < 4) return;
  drag = { x: event.clientX, moved: true };
  pan(-by / last.scale);
});
canvas.addEventListener("pointerup", (event) => {
  if (drag && !drag.moved) {
    const block = at(event)?.block;
    if (block) choose(block.job);
    showTip(event);   // a finger has no other way to it
  }
  drag = null;
});
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") tip.hidden = true; });
for (const moved of [window, scroll]) moved.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event)?.time ?? now());
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const view = shown(), length = view.to - view.from, middle = (view.from + view.to) / 2;
  const act = {
    ArrowLeft: () => pan(-length / 8), ArrowRight: () => pan(length / 8), End: goLive,
    "+": () => zoom(0.7, middle), "=": () => zoom(0.7, middle), "-": () => zoom(1.4, middle),
    ArrowUp: () => scroll.scrollBy(0, -60), ArrowDown: () => scroll.scrollBy(0, 60),
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});
scroll.addEventListener("scroll", redraw, { passive: true });
whenMoved(redraw);
whenThemeChanges(redraw);
whenChanged((news) => {
  if (news.whole || news.jobs.length || news.nodes.length || news.gone.length) stale = true;
  redraw();
});
addEventListener("resize", redraw);
