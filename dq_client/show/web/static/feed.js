// The feed of decisions, latest first, and the list of nodes.

import { decisions, jobs, nodes, whenChanged } from "./cluster.js";
import { List, say } from "./list.js";
import { byId, bytes, clock, element, kind } from "./text.js";

const SIZES = new Set(["expand", "shrink", "regrid", "committed", "aborted", "order"]);
const LIFE = new Set(["submit", "start", "done", "failed", "killed", "kill", "restart", "hold", "release"]);
const filter = byId("feed-filter"), search = byId("feed-search"), nodeSearch = byId("node-search");

function makeDecision() {
  const row = element("div", "row decision");
  row.append(element("span", "when"), element("span", "what"), element("span"), element("span", "text"));
  return row;
}

function subject(d) {
  const size = d.processors === null ? "" : `, ${d.processors} processor${d.processors === 1 ? "" : "s"}`;
  if (d.job) return `job ${d.job} ${jobs.get(d.job)?.name ?? ""}${size}`;
  return d.node ? `${d.node}${size}` : "";
}

function fillDecision(row, d) {
  const [when, what, about, text] = row.children;
  say(when, clock(d.time_s));
  what.className = `what ${kind(d.what)}`;
  say(what, d.what);
  say(about, subject(d));
  say(text, d.text);
  text.title = Object.entries(d.figures).map(([name, value]) => `${name} = ${value}`).join(", ");
}

function fits(d) {
  if (filter.value === "sizes" && !SIZES.has(d.what)) return false;
  if (filter.value === "life" && !LIFE.has(d.what)) return false;
  if (filter.value === "nodes" && !d.node) return false;
  const text = search.value.trim().toLowerCase();
  if (!text) return true;
  return String(d.job) === text || `${subject(d)} ${d.what} ${d.text}`.toLowerCase().includes(text);
}

const feed = new List(byId("feed"), 46, makeDecision, fillDecision);
const showFeed = () => feed.show(decisions.filter(fits).reverse(),
  decisions.length ? `No such decision among ${decisions.length}.` : "No decision yet: one is made with each job that is submitted.");

function makeNode() {
  const row = element("div", "row node");
  row.append(element("span"), element("span"), element("span", "num"), element("span", "when"));
  return row;
}

let held = new Map();   // node -> slots that jobs have
function count() {
  held = new Map();
  for (const job of jobs.values()) {
    const place = job.places.at(-1);
    if (!place || place.until_s !== null) continue;
    for (const [node, first, last] of place.slots) held.set(node, (held.get(node) ?? 0) + last - first + 1);
  }
}

function fillNode(row, node) {
  const [name, state, use, more] = row.children;
  say(name, node.name);
  name.title = node.host;
  state.className = `state ${node.state}`;
  say(state, node.state);
  say(use, `${held.get(node.name) ?? 0} of ${node.processors}`);
  const facts = [];
  if (node.drain) facts.push(node.drain.reason || `drains for ${node.drain.by || "its engine"}`);
  if (node.memory) facts.push(bytes(node.memory));
  if (node.gpus) facts.push(`${node.gpus} GPUs`);
  if (node.speed !== 1) facts.push(`speed ${node.speed}`);
  say(more, [...facts, ...node.features].join(", "));
  more.title = more.textContent;
}

const table = new List(byId("nodes"), 34, makeNode, fillNode);
const rank = { lost: 0, draining: 1, empty: 2, up: 3, left: 4 };
const collator = new Intl.Collator("en", { numeric: true });
function showNodes() {
  count();
  const text = nodeSearch.value.trim().toLowerCase();
  const found = [...nodes.values()].filter((n) => (text ? n.name.toLowerCase().includes(text) || n.state === text : n.state !== "left"));
  table.show(found.sort((a, b) => rank[a.state] - rank[b.state] || collator.compare(a.name, b.name)),
    text ? `No such node among ${nodes.size}.` : "No node yet: dq agent start");
}

filter.addEventListener("change", showFeed);
search.addEventListener("input", showFeed);
nodeSearch.addEventListener("input", showNodes);
let pending = false;
whenChanged(() => {
  if (pending) return;
  pending = true;
  setTimeout(() => { pending = false; showFeed(); showNodes(); }, jobs.size > 2000 ? 400 : 60);
});
