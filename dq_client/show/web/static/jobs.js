// The list of jobs, and the one that is chosen.

import { ask, colourOf, ENDED, jobs, nameOf, now, WAITING, whenChanged } from "./cluster.js";
import { drawCurve } from "./curve.js";
import { mark, onChoice } from "./gantt.js";
import { List, say } from "./list.js";
import { byId, clock, duration, element, whenThemeChanges } from "./text.js";
import { inShort, shownUsage } from "./usage.js";

const OUTPUT_EVERY_MS = 2000, WHY_EVERY_MS = 1500, WHYS_AT_ONCE = 2, FORECAST_EVERY_MS = 20000;
const filter = byId("job-filter"), search = byId("job-search");
let chosen = 0, tab = "stays", loaded = 0, shownTab = "";
const whys = new Map();       // job -> { text, at }: what it waits for, as last asked
let asking = 0;
let forecast = { at_s: 0, starts: {} };   // when queued jobs start, as last simulated

const list = new List(byId("jobs"), 46, makeRow, fillRow);

function makeRow() {
  const row = element("div", "row job");
  row.setAttribute("role", "option");
  row.append(element("span", "swatch"), element("span", "num"), element("span"), element("span", "num"),
    element("span"), element("span", "sub"));
  row.addEventListener("click", () => choose(row.thing.id));
  return row;
}

function fillRow(row, job) {
  const [swatch, id, name, size, state, sub] = row.children;
  row.className = `row job${job.id === chosen ? " chosen" : ""}`;
  row.setAttribute("aria-selected", String(job.id === chosen));
  swatch.className = `swatch ${job.places.length ? `c${colourOf(job.id)}` : "none"}`;
  say(id, String(job.id));
  say(name, nameOf(job));
  name.title = nameOf(job);
  say(size, String(job.processors));
  state.className = `state ${job.state}`;
  say(state, job.state);
  say(sub, words(job));
  sub.title = sub.textContent;
}

// Whole seconds: parts of them would only flicker.
const since = (time_s) => Math.max(0, Math.round(now() - time_s));

// One line on how it is with a job.
function words(job) {
  if (ENDED.has(job.state)) return `${clock(job.end_s)}, after ${duration(job.end_s - job.submit_s)}${inShort(job)}${job.reason ? `: ${job.reason}` : ""}`;
  if (WAITING.has(job.state)) return `waits ${duration(since(job.submit_s))}${starts(job)}${why(job.id)}`;
  const spot = job.sweet_spot === null ? "" : `, sweet spot ${job.sweet_spot}`;
  // A job that cannot be resized does not count its iterations.
  const counted = job.remap_points ? `, ${job.remap_points} iterations` : "";
  return `${job.user}: runs ${duration(since(job.start_s))}${inShort(job)}${counted}${spot}`;
}

// What a job waits for is asked of the server for the rows in sight only, a few at a time.
function why(id) {
  const known = whys.get(id);
  if ((!known || performance.now() - known.at > WHY_EVERY_MS) && asking < WHYS_AT_ONCE) {
    asking += 1;
    whys.set(id, { text: known?.text ?? "", at: performance.now() });
    ask(`/api/why/${id}`).then(
      (found) => { whys.set(id, { text: found.now[0]?.text ?? "", at: performance.now() }); },
      () => { whys.delete(id); },
    ).finally(() => { asking -= 1; });
  }
  return known?.text ? `: ${known.text}` : "";
}

// When a queued job is expected to start: the chance is about 80 % that it starts within the interval.
function starts(job) {
  const found = job.state === "queued" ? forecast.starts[job.id] : undefined;
  if (!found || found.median_s === null) return "";
  const left = (seconds) => Math.max(0, Math.round(forecast.at_s + seconds - now()));
  const { earliest_s: first, median_s: middle, latest_s: last } = found;
  if (last !== null && left(last) < 0.5) return ", may start at any moment";   // overdue in all simulations
  const until = last === null ? "or later" : `to ${duration(left(last))}`;
  return `, starts in ${duration(left(middle))} (80 %: ${duration(left(first))} ${until})`;
}

function askForecast() {
  if (![...jobs.values()].some((job) => job.state === "queued")) return;
  ask("/api/forecast").then((found) => { forecast = found; soon(); }, () => { forecast = { at_s: 0, starts: {} }; });
}

function wanted() {
  const text = search.value.trim().toLowerCase(), which = filter.value;
  const found = [...jobs.values()].filter((job) => {
    const ended = ENDED.has(job.state);
    if (which === "active" && ended) return false;
    if (which === "waiting" && !WAITING.has(job.state)) return false;
    if (which === "ended" && !ended) return false;
    return !text || String(job.id) === text || job.name.toLowerCase().includes(text) || job.user.toLowerCase().includes(text);
  });
  return which === "ended" || which === "all" ? found.sort((a, b) => b.id - a.id) : found.sort(bySight);
}

// Those that run first, then the queue in the order of submission.
function bySight(a, b) {
  return WAITING.has(a.state) - WAITING.has(b.state) || a.id - b.id;
}

export function choose(id) {
  chosen = id;
  loaded = 0;
  shownTab = "";
  mark(id);
  list.redraw();
  detail();
}

function detail() {
  const job = jobs.get(chosen);
  byId("job-none").hidden = Boolean(job);
  byId("job-body").hidden = !job;
  if (!job) { say(byId("h-job"), "Job"); return; }
  say(byId("h-job"), `Job ${job.id}: ${nameOf(job)}`);
  say(byId("job-now"), `${job.state}, ${job.kind}, ${job.processors} processor${job.processors === 1 ? "" : "s"} (${job.grid.join(" × ")}); ${words(job)}`);
  drawCurve(byId("curve"), job);
  if (tab === "stays") showStays(job);
  else if (performance.now() - loaded > OUTPUT_EVERY_MS) load(job.id);
}

function table(heads, rows) {
  const made = element("table"), head = element("tr");
  for (const text of heads) head.append(element("th", "", text));
  made.append(head);
  for (const { cells, best } of rows) {
    const row = element("tr", best ? "best" : "");
    cells.forEach((text, k) => row.append(element("td", k === cells.length - 1 ? "why" : "", text)));
    made.append(row);
  }
  return made;
}

function put(content, sign) {
  if (shownTab === sign) return;
  shownTab = sign;
  byId("tab").replaceChildren(content);
}

function showStays(job) {
  const sizes = job.sizes;
  put(sizes.length ? table(["on", "iterations", "each", "moved in", "then"], sizes.map((stay) => ({
    best: stay.processors === job.sweet_spot,
    cells: [String(stay.processors), String(stay.iterations),
      stay.iteration_time_s === null ? "" : duration(stay.iteration_time_s),
      stay.redistribution_time_s ? duration(stay.redistribution_time_s) : "",
      `${stay.decision}: ${stay.reason}`],
  }))) : element("p", "note", job.start_s === null ? "It has not started." : "Its size does not change."), `stays ${JSON.stringify(sizes)}`);
}

async function load(id) {
  const what = tab;
  loaded = performance.now();
  let content, sign;
  try {
    if (what === "story") {
      const found = await ask(`/api/why/${id}`);
      content = table(["at", "what", "why"], [
        ...found.now.map((reason) => ({ cells: ["now", "", reason.text] })),
        ...found.story.reverse().map((d) => ({ cells: [clock(d.time_s), d.what, d.text] })),
      ]);
      sign = `story ${JSON.stringify(found)}`;
    } else if (what === "usage") {
      const found = await ask(`/api/jobs/${id}`);
      content = shownUsage(found, table);
      sign = `usage ${JSON.stringify(found.usage)}`;
    } else {
      const found = await ask(`/api/logs/${id}?stream=${what}`);
      content = element("pre", "", found.text || "nothing was written");
      sign = `${what} ${found.text}`;
    }
  } catch (error) {
    content = element("p", "note", error.message);
    sign = `error ${error.message}`;
  }
  if (id !== chosen || what !== tab) return;
  const box = byId("tab"), atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  put(content, sign);
  if ((what === "out" || what === "err") && atEnd) box.scrollTop = box.scrollHeight;
}

for (const button of document.querySelectorAll("[data-tab]")) {
  button.addEventListener("click", () => {
    tab = button.dataset.tab;
    for (const other of document.querySelectorAll("[data-tab]")) other.setAttribute("aria-selected", String(other === button));
    loaded = 0;
    shownTab = "";
    detail();
  });
}
byId("jobs").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !list.things.length) return;
  event.preventDefault();
  const k = list.things.findIndex((job) => job.id === chosen);
  const next = Math.min(list.things.length - 1, Math.max(0, k + step));
  choose(list.things[next].id);
  const top = next * 46, box = byId("jobs");
  if (top < box.scrollTop) box.scrollTop = top;
  if (top + 46 > box.scrollTop + box.clientHeight) box.scrollTop = top + 46 - box.clientHeight;
});

function none() {
  if (!jobs.size) return "No job yet: dq submit -n 2 -- PROGRAM";
  if (filter.value === "all") return `No job among ${jobs.size} has this name, user or id.`;
  return `No such job among ${jobs.size}: choose “all” above.`;
}

export function redraw() {
  list.show(wanted(), none());
  detail();
}
let pending = false;
function soon() {            // many changes in a frame are one for a list of thousands
  if (pending) return;
  pending = true;
  setTimeout(() => { pending = false; redraw(); }, jobs.size > 2000 ? 400 : 60);
}
filter.addEventListener("change", redraw);
search.addEventListener("input", redraw);
whenChanged(soon);
whenThemeChanges(detail);
addEventListener("resize", detail);
onChoice((id) => {
  if (ENDED.has(jobs.get(id)?.state) && filter.value !== "all") filter.value = "all";
  choose(id);
  redraw();
});
setInterval(askForecast, FORECAST_EVERY_MS);
setTimeout(askForecast, 2000);
setInterval(() => { list.redraw(); detail(); }, 1000);   // how long they run and wait
