// What is known of the cluster: the state, then the events, from the server of this page.
// Listeners are told after each change; everything else in the page draws from here.

import { setToday } from "./text.js";

export const jobs = new Map();
export const nodes = new Map();
export const decisions = [];          // oldest first
export const now = () => still ?? Date.now() / 1000 + ahead;
export let status = { up: false, why: "connecting" };

const DECISIONS_KEPT = 2000, COLOURS = 8;
const listeners = [];
let ahead = 0;                        // of this machine's clock
let still = null;                     // a report's time, which does not go on
const colours = new Map();            // job -> the number of its colour

setToday(now);
export const whenChanged = (call) => listeners.push(call);
export const ENDED = new Set(["done", "failed", "killed"]);
export const WAITING = new Set(["held", "waiting", "queued", "restarting"]);
export const colourOf = (id) => colours.get(id) ?? id % COLOURS;
export const nameOf = (job) => ((job.array_index ?? null) === null ? job.name : `${job.name}[${job.array_index}]`);

// Each job keeps the colour that the fewest jobs had which ran when it began: eight at a time differ.
function colourJobs(arrived) {
  for (const id of [...colours.keys()]) if (!jobs.has(id)) colours.delete(id);
  const news = arrived.filter((job) => job.places.length && !colours.has(job.id));
  let beside = news.length ? [...colours].map(([id, c]) => [jobs.get(id), c]) : [];
  for (const job of news.sort((a, b) => a.start_s - b.start_s)) {
    beside = beside.filter(([other]) => (other.end_s ?? Infinity) > job.start_s);
    const used = Array(COLOURS).fill(0);
    for (const [, c] of beside) used[c] += 1;
    const least = Math.min(...used), own = job.id % COLOURS;
    const c = used[own] === least ? own : used.indexOf(least);
    colours.set(job.id, c);
    beside.push([job, c]);
  }
}

// {"n1": "0-3,6"} -> [["n1", 0, 3], ["n1", 6, 6]], once for each row that arrives.
function slots(byNode) {
  const found = [];
  for (const [node, text] of Object.entries(byNode)) {
    for (const part of text.split(",")) {
      const [first, last] = part.split("-").map(Number);
      found.push([node, first, last ?? first]);
    }
  }
  return found;
}

function take(news) {
  ahead = news.now_s - Date.now() / 1000;
  if (news.whole) {
    jobs.clear();
    nodes.clear();
    decisions.length = 0;
  }
  for (const job of news.jobs) {
    for (const place of job.places) {
      place.slots = slots(place.nodes);
      place.size ??= place.slots.reduce((sum, [, a, b]) => sum + b - a + 1, 0);
    }
    jobs.set(job.id, job);
  }
  for (const node of news.nodes) nodes.set(node.name, node);
  for (const gone of news.gone) {
    jobs.delete(gone);
    nodes.delete(gone);
  }
  if (still === null && news.jobs.length) colourJobs(news.jobs);   // a report's tables have colours by number
  decisions.push(...news.decisions);
  if (decisions.length > DECISIONS_KEPT) decisions.splice(0, decisions.length - DECISIONS_KEPT);
  status = news.status;
  tell(news);
}

function tell(news) {
  for (const call of listeners) call(news);
}

function lost(why) {
  status = { ...status, up: false, why };
  tell({ jobs: [], nodes: [], gone: [], decisions: [] });
}

// The data of a report: nothing comes after them.
export function keep(data) {
  still = data.now_s;
  take(data);
}

export async function follow() {
  const state = await fetch("/api/state");
  if (!state.ok) throw new Error(`the state cannot be read (${state.status})`);
  const whole = await state.json();
  take(whole);
  // The browser comes back by itself, and says where it stopped (Last-Event-ID).
  const events = new EventSource(`/api/events?place=${encodeURIComponent(whole.place)}`);
  events.onmessage = (message) => take(JSON.parse(message.data));
  events.onerror = () => lost("this page has lost dq web: it may have ended");
}

export async function ask(path) {
  const answer = await fetch(path);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? `no answer (${answer.status})`);
  return found;
}
