// The pictures of a report: those of the page, with the data that stand beside this script.

import "./charts.js";
import { jobs, keep } from "./cluster.js";
import { drawCurve } from "./curve.js";
import { mark } from "./gantt.js";
import { byId, whenThemeChanges } from "./text.js";
import { choose } from "./time.js";

function draw() {
  for (const canvas of document.querySelectorAll(".curve")) drawCurve(canvas, jobs.get(Number(canvas.dataset.job)));
}

const data = JSON.parse(byId("data").textContent);
choose("all");
keep(data);
mark(data.about);
draw();
whenThemeChanges(draw);
addEventListener("resize", draw);
