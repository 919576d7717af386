// The stretch of time that the Gantt and the charts below it show, and how it is moved.

import { jobs, now } from "./cluster.js";

const SHORTEST_S = 2;
// `span`: while it is live; `all`: from the first job on, `few`: that, but at most `span`.
const view = { from: 0, to: 1, live: true, span: 600, all: false, few: true };
const listeners = [];

export const whenMoved = (call) => listeners.push(call);
export const isLive = () => view.live;

export function shown() {
  if (view.live) {
    view.to = now();
    view.from = view.to - view.span;
    if (view.all) view.from = first();
    else if (view.few) view.from = Math.max(view.from, first());
  }
  return view;
}

function first() {
  let earliest = Infinity;
  for (const job of jobs.values()) earliest = Math.min(earliest, job.places[0]?.since_s ?? job.submit_s);
  return Math.min(earliest, now() - 10) - 1;
}

function moved() {
  for (const call of listeners) call();
}

export function choose(window_s) {
  view.live = true;
  view.few = false;
  view.all = window_s === "all";
  if (!view.all) view.span = Number(window_s);
  moved();
}

export function goLive() {
  const length = view.to - view.from;
  view.live = true;
  if (!view.all) view.span = length;
  moved();
}

export function pan(by_s) {
  shown();
  const length = view.to - view.from;
  view.live = view.few = false;
  view.from += by_s;
  view.to = view.from + length;
  if (view.to >= now()) {
    view.all = false;
    view.span = length;
    view.live = true;
  }
  moved();
}

// `at`: the time that stays where it is.
export function zoom(factor, at) {
  shown();
  const length = Math.max(SHORTEST_S, (view.to - view.from) * factor);
  view.all = view.few = false;
  if (view.live) {
    view.span = length;
  } else {
    const share = (at - view.from) / (view.to - view.from);
    view.from = at - share * length;
    view.to = view.from + length;
  }
  moved();
}

const STEPS = [0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];

// Times for the axis, about one each 75 pixels.
export function ticks(from, to, width) {
  const wanted = ((to - from) * 75) / Math.max(width, 75);
  const step = STEPS.find((s) => s >= wanted) ?? Math.ceil(wanted / 604800) * 604800;
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) found.push(t);
  return found;
}
