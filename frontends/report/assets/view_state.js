// SPDX-License-Identifier: Apache-2.0
// The visible stretch [first, end) of a row of `count` things, which several views may share.

class VisibleRange {
  constructor(count, least = 4) {
    this.listeners = [];
    this.resize(count, least);
  }

  resize(count, least = 4) {
    this.count = Math.max(1, count);
    this.least = Math.min(least, this.count);
    this.show(0, this.count);
  }

  get length() { return this.end - this.first; }
  get whole() { return this.length >= this.count; }

  /** Shows [first, end), moved and clipped into what there is. */
  show(first, end) {
    const length = Math.min(this.count, Math.max(this.least, end - first));
    const start = Math.min(Math.max(0, (first + end - length) / 2), this.count - length);
    if (start === this.first && start + length === this.end) return;
    this.first = start;
    this.end = start + length;
    this.listeners.forEach((listener) => listener());
  }

  /** Shrinks the stretch by `factor` around `at`, which stays in its place. */
  zoom(factor, at = (this.first + this.end) / 2) {
    const length = Math.min(this.count, Math.max(this.least, this.length / factor));
    const first = at - (at - this.first) * (length / this.length);
    this.show(first, first + length);
  }

  pan(by) { this.show(this.first + by, this.end + by); }
  reset() { this.show(0, this.count); }

  /** Moves so that `at` is visible. */
  reveal(at) {
    if (at < this.first) this.pan(at - this.first);
    if (at + 1 > this.end) this.pan(at + 1 - this.end);
  }
}

// The step that all views point at.

class Cursor {
  constructor() {
    this.listeners = [];
    this.step = 0;
  }

  move(step) {
    if (step === this.step) return;
    this.step = step;
    this.listeners.forEach((listener) => listener());
  }
}

// The colours of the style sheet for canvases, which cannot read them by themselves.

class Theme {
  constructor() {
    this.listeners = [];
    this.read();
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", () => {
        this.read();
        this.listeners.forEach((listener) => listener());
      });
    }
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "muted", "line", "back", "after", "before", "again", "budget", "fill", "focus"]) {
      this[name] = style.getPropertyValue("--" + name).trim();
    }
    this.patterns = new Map();
  }

  /** Diagonal lines of a colour, over a paler ground of it. */
  hatch(context, colour) {
    if (!this.patterns.has(colour)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const brush = tile.getContext("2d");
      brush.globalAlpha = 0.35;
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 6, 6);
      brush.globalAlpha = 1;
      brush.strokeStyle = colour;
      brush.lineWidth = 1.5;
      brush.beginPath();
      for (const shift of [-6, 0, 6]) {
        brush.moveTo(shift - 1, 7);
        brush.lineTo(shift + 7, -1);
      }
      brush.stroke();
      this.patterns.set(colour, context.createPattern(tile, "repeat"));
    }
    return this.patterns.get(colour);
  }

  /** A colour as [red, green, blue]. */
  channels(colour) {
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  }
}
