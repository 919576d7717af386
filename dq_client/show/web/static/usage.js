// CPU time and memory of one job: two curves over its life, and its ranks.

import { bytes, clock, duration, element } from "./text.js";

const WIDTH = 300, HEIGHT = 54;
export const percent = (part) => (part === null ? "–" : `${Math.round(100 * part)} %`);

// One line for the list of jobs; empty where nothing was measured.
export function inShort({ usage, processors, end_s: end }) {
  if (!usage) return "";
  if (end !== null) return `, ${duration(usage.cpu_s)} of CPU, at most ${bytes(usage.memory_max)}`;
  const busy = usage.cpu === null || !processors ? "" : `, ${percent(usage.cpu / processors)} busy`;
  return `${busy}${usage.memory === null ? "" : `, ${bytes(usage.memory)}`}`;
}

function drawing(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// points: [[time, value], ...]; a pointer on the curve sees the nearest point in words.
function curve(caption, points, most, words, kind) {
  const figure = element("figure"), first = points[0][0], lasted = points.at(-1)[0] - first;
  const x = (t) => (lasted ? ((t - first) / lasted) * WIDTH : 0), y = (v) => HEIGHT - 3 - (v / most) * (HEIGHT - 6);
  const picture = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: `usage ${kind}`, role: "img" });
  const line = points.map(([t, v]) => `${x(t).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  picture.append(drawing("polyline", { points: `0,${HEIGHT} ${line} ${x(first + lasted).toFixed(1)},${HEIGHT}`, class: "area" }),
    drawing("polyline", { points: line, class: "line" }));
  const label = element("figcaption", "", caption);
  picture.setAttribute("aria-label", caption);
  picture.addEventListener("pointermove", (event) => {
    const t = first + (event.offsetX / picture.clientWidth) * lasted;
    const near = points.reduce((best, point) => (Math.abs(point[0] - t) < Math.abs(best[0] - t) ? point : best));
    label.textContent = `${clock(near[0])}: ${words(near[1])}`;
  });
  picture.addEventListener("pointerleave", () => { label.textContent = caption; });
  figure.append(label, picture);
  return figure;
}

// What the tab shows of a job, as /api/jobs/ID has it.
export function shownUsage(job, table) {
  const { usage } = job, box = element("div");
  if (!usage) {
    box.append(element("p", "note", job.start_s === null ? "It has not started." : "Nothing was measured yet: agents look every few seconds."));
    return box;
  }
  const now = usage.cpu === null ? "" : `${usage.cpu.toFixed(2)} of ${job.processors} busy now, `;
  const limit = job.memory ? `, ${bytes(job.memory)} asked for each processor` : "";
  const cpu = `CPU: ${now}${duration(usage.cpu_s)} in all`;
  const memory = `Memory: ${usage.memory === null ? "" : `${bytes(usage.memory)} now, `}at most ${bytes(usage.memory_max)}${limit}`;
  if (usage.history.length > 1) {
    const busy = usage.history.map(([t, v]) => [t, v]), held = usage.history.map(([t, , v]) => [t, v]);
    const pair = element("div", "pair two");
    pair.append(
      curve(cpu, busy, Math.max(job.processors, ...busy.map((point) => point[1])), (v) => `${v.toFixed(2)} processors busy`, "cpu"),
      curve(memory, held, Math.max(usage.memory_max, 1), bytes, "memory"));
    box.append(pair);
  } else box.append(element("p", "", cpu), element("p", "", memory));
  if (usage.ranks.length) {
    const several = usage.ranks.some((rank) => rank.world);
    box.append(table(["rank", "node", "busy", "memory"], usage.ranks.map((rank) => ({
      cells: [several ? `${rank.world}.${rank.rank}` : String(rank.rank), rank.node, percent(rank.cpu), bytes(rank.memory)],
    }))));
  }
  return box;
}
