// A list of any length of which only the rows in sight exist.

import { element } from "./text.js";

const BEYOND = 4;   // rows kept above and below

export class List {
  // make() gives an empty row, fill(row, thing) writes a thing into it.
  constructor(box, height, make, fill) {
    Object.assign(this, { box, height, make, fill, things: [], rows: [], asked: false });
    this.space = element("div");
    box.append(this.space);
    box.addEventListener("scroll", () => this.redraw(), { passive: true });
    new ResizeObserver(() => this.redraw()).observe(box);
  }

  // none: what stands there if there is no thing.
  show(things, none = "") {
    this.things = things;
    this.box.dataset.none = things.length ? "" : none;
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  draw() {
    const { box, height, things, rows } = this;
    this.space.style.height = `${things.length * height}px`;
    box.style.setProperty("--wanted", `${Math.max(1, things.length) * height}px`);
    const begin = Math.max(0, Math.floor(box.scrollTop / height) - BEYOND);
    const count = Math.min(things.length - begin, Math.ceil(box.clientHeight / height) + 2 * BEYOND);
    while (rows.length < count) {
      const row = this.make();
      rows.push(row);
      box.append(row);
    }
    rows.forEach((row, k) => {
      row.hidden = k >= count;
      if (row.hidden) return;
      row.style.transform = `translateY(${(begin + k) * height}px)`;
      row.thing = things[begin + k];
      this.fill(row, row.thing);
    });
  }
}

// Sets text only where it differs: writing it again would lose a selection.
export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
