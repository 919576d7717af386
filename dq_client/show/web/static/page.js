// The page: its head, the buttons of the time shown, and the frame that moves it.

import { follow, jobs, nodes, status, whenChanged } from "./cluster.js";
import * as charts from "./charts.js";
import "./feed.js";
import * as gantt from "./gantt.js";
import "./jobs.js";
import { byId, element } from "./text.js";
import { choose, goLive, isLive, shown, whenMoved, zoom } from "./time.js";

function cards() {
  const states = { running: 0, waiting: 0, ended: 0 };
  for (const job of jobs.values()) {
    if (job.end_s !== null) states.ended += 1;
    else if (["starting", "running", "killing"].includes(job.state)) states.running += 1;
    else states.waiting += 1;
  }
  const there = [...nodes.values()].filter((node) => node.state !== "left");
  const up = there.filter((node) => node.state === "up").length;
  const found = [
    ["processors", `${status.processors ?? 0}`], ["idle", `${status.idle ?? 0}`], ["nodes", up === there.length ? `${up}` : `${up} of ${there.length} up`],
    ["running", states.running], ["waiting", states.waiting], ["ended", states.ended],
  ];
  byId("cards").replaceChildren(...found.map(([name, value]) => {
    const card = element("div");
    card.append(element("dt", "", name), element("dd", "", String(value)));
    return card;
  }));
  const link = byId("link");
  link.className = `state ${status.up ? "up" : "away"}`;
  link.textContent = status.up ? (status.paused ? `paused: ${status.paused}` : "live") : "server away";
  link.title = status.why;
}

function pressed() {
  byId("live").setAttribute("aria-pressed", String(isLive()));
}

for (const button of document.querySelectorAll("[data-window]")) {
  button.addEventListener("click", () => choose(button.dataset.window));
}
document.querySelector("[data-act=in]").addEventListener("click", () => zoom(0.6, (shown().from + shown().to) / 2));
document.querySelector("[data-act=out]").addEventListener("click", () => zoom(1.6, (shown().from + shown().to) / 2));
byId("live").addEventListener("click", goLive);
whenMoved(pressed);
whenChanged(cards);

// Time goes on without news: the picture moves about a pixel at a time, while it can be seen.
let moved_ms = 0;
function frame(time_ms) {
  const view = shown(), pixel_ms = ((view.to - view.from) * 1000) / Math.max(300, byId("gantt").clientWidth);
  if (isLive() && time_ms - moved_ms > Math.max(100, Math.min(pixel_ms, 2000))) {
    moved_ms = time_ms;
    gantt.redraw();
    charts.redraw();
  }
  requestAnimationFrame(frame);
}

follow().then(() => requestAnimationFrame(frame), (error) => {
  byId("link").textContent = error.message;
  byId("link").className = "state away";
});
