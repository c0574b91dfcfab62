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

// What all drawings have in common: a canvas in device pixels that is drawn once a frame at most, wheel, drag, pinch,
// keys and buttons to zoom and to pan, and a line of text that says what the pointer or the keyboard points at.
//
// A view has `across` and perhaps `down`, the ranges that it shows, and the methods draw(context, width, height),
// point(x, y), which is told where the pointer is, step(dx, dy), which moves what is pointed at by keyboard, and
// toPeak(), which points at the schedule's peak.

const WHEEL_BURST = 300;

/** Where the present burst of wheel events began: a page that is being scrolled does not stop at a canvas. */
const wheelBurst = { target: null, time: -Infinity };
window.addEventListener("wheel", (event) => {
  if (event.timeStamp - wheelBurst.time > WHEEL_BURST) wheelBurst.target = event.target;
  wheelBurst.time = event.timeStamp;
}, { capture: true, passive: true });

class CanvasView {
  constructor(name, theme, margins) {
    this.root = document.getElementById(name);
    this.canvas = this.root.querySelector("canvas");
    this.readout = this.root.querySelector(".readout");
    this.context = this.canvas.getContext("2d");
    this.theme = theme;
    this.margins = margins;
    this.pointers = new Map();
    /** How often it was drawn, and how many shapes the last time. */
    this.frames = 0;
    this.shapes = 0;
    theme.listeners.push(() => this.invalidate());
    new ResizeObserver(() => this.invalidate()).observe(this.canvas);
    this.listen();
  }

  invalidate() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }

  paint() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    this.scale = scale;
    this.width = width;
    this.height = height;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.context.font = "12px system-ui, sans-serif";
    this.shapes = 0;
    this.draw(this.context, width, height);
    ++this.frames;
  }

  get plotWidth() { return Math.max(1, this.width - this.margins.left - this.margins.right); }
  get plotHeight() { return Math.max(1, this.height - this.margins.top - this.margins.bottom); }
  toX(value) { return this.margins.left + (value - this.across.first) / this.across.length * this.plotWidth; }
  fromX(x) { return this.across.first + (x - this.margins.left) / this.plotWidth * this.across.length; }
  toY(value) { return this.margins.top + (value - this.down.first) / this.down.length * this.plotHeight; }
  fromY(y) { return this.down.first + (y - this.margins.top) / this.plotHeight * this.down.length; }

  say(text) { if (this.readout.textContent !== text) this.readout.textContent = text; }

  zoom(factor, x, y) {
    this.across.zoom(factor, x === undefined ? undefined : this.fromX(x));
    if (this.down) this.down.zoom(factor, y === undefined ? undefined : this.fromY(y));
  }
  pan(dx, dy) {
    this.across.pan(-dx / this.plotWidth * this.across.length);
    if (this.down) this.down.pan(-dy / this.plotHeight * this.down.length);
  }
  reset() {
    this.across.reset();
    if (this.down) this.down.reset();
  }

  listen() {
    this.canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.onPress(event));
    this.canvas.addEventListener("pointermove", (event) => this.onMove(event));
    for (const end of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    }
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("dblclick", (event) => this.zoom(2, event.offsetX, event.offsetY));
    for (const button of this.root.querySelectorAll("button[data-do]")) {
      button.addEventListener("click", () => this.act(button.dataset.do));
    }
  }

  act(what) {
    const actions = {
      in: () => this.zoom(1.6), out: () => this.zoom(1 / 1.6), reset: () => this.reset(), peak: () => this.toPeak(),
    };
    actions[what]();
  }

  onWheel(event) {
    if (wheelBurst.target !== this.canvas) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.zoom(Math.exp(-event.deltaY * lines * 0.0022), event.offsetX, event.offsetY);
  }

  onPress(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (event.pointerType === "touch") this.point(event.offsetX, event.offsetY);
  }

  onMove(event) {
    const held = this.pointers.get(event.pointerId);
    if (!held) {
      this.point(event.offsetX, event.offsetY);
      return;
    }
    const others = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId);
    if (others.length > 0) {
      const other = others[0][1];
      const distance = (p) => Math.max(8, Math.hypot(p.x - other.x, p.y - other.y));
      this.zoom(distance({ x: event.offsetX, y: event.offsetY }) / distance(held), other.x, other.y);
    } else {
      this.pan(event.offsetX - held.x, event.offsetY - held.y);
    }
    held.x = event.offsetX;
    held.y = event.offsetY;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const keys = { "+": "in", "=": "in", "-": "out", "_": "out", Home: "reset", p: "peak", P: "peak" };
    const arrow = arrows[event.key];
    if (arrow && event.shiftKey) {
      this.step(arrow[0], arrow[1]);
    } else if (arrow && (arrow[1] === 0 || this.down)) {
      this.pan(-arrow[0] * this.plotWidth / 10, -arrow[1] * this.plotHeight / 10);
    } else if (keys[event.key]) {
      this.act(keys[event.key]);
    } else {
      return;
    }
    event.preventDefault();
  }

  text(words, x, y, colour, align = "left") {
    this.context.textAlign = align;
    this.context.fillStyle = colour;
    this.context.fillText(words, x, y);
  }

  line(x0, y0, x1, y1, colour, dash = [], width = 1) {
    const context = this.context;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
    context.setLineDash([]);
  }

  /** Numbers along the bottom, each under the middle of its thing. */
  drawAcrossTicks(label) {
    const bottom = this.height - this.margins.bottom;
    for (const tick of roundTicks(this.across.first, this.across.end - 1, this.plotWidth / 90, 1)) {
      const x = this.toX(tick + 0.5);
      if (x < this.margins.left || x > this.width - this.margins.right) continue;
      this.line(x, bottom, x, bottom + 4, this.theme.muted);
      this.text(grouped(tick), x, bottom + 16, this.theme.muted, "center");
    }
    this.text(label, this.width - this.margins.right, bottom + 32, this.theme.muted, "right");
  }

  /** Times along the top, where they pass; steps have different lengths, so what would touch is left out. */
  drawTimeTicks() {
    const { times, stepCount, graph } = this.schedule;
    const first = Math.max(0, Math.floor(this.across.first));
    const end = Math.min(stepCount, Math.ceil(this.across.end));
    if (times[end] <= times[first]) return;
    const top = this.margins.top;
    this.text("time", this.margins.left - 30, top - 8, this.theme.muted, "right");
    let step = first;
    let free = this.margins.left - 26;
    this.timeTicks = 0;
    for (const tick of roundTicks(times[first], times[end], this.plotWidth / 60)) {
      while (step + 1 < end && times[step + 1] <= tick) ++step;
      const part = Math.min(1, (tick - times[step]) / ((times[step + 1] - times[step]) || 1));
      const x = this.toX(step + part);
      const words = timeTick(tick, times[end], graph.unit);
      const half = this.context.measureText(words).width / 2;
      if (x - half < free || x < this.margins.left || x + half > this.width) continue;
      free = x + half + 14;
      this.line(x, top, x, top - 4, this.theme.muted);
      this.text(words, x, top - 8, this.theme.muted, "center");
      ++this.timeTicks;
    }
  }

  /** Draws within the plot only. */
  clipped(draw) {
    const context = this.context;
    context.save();
    context.beginPath();
    context.rect(this.margins.left, this.margins.top, this.plotWidth, this.plotHeight);
    context.clip();
    draw(context);
    context.restore();
  }
}

// A drawing of more things than pixels: every rectangle adds to the pixels that it covers, and a pixel is the darker
// the more of it is covered. The work is one addition per line of pixels that a rectangle touches and one pass over the
// pixels, whatever the number of rectangles.

class Raster {
  constructor(width, height) {
    this.width = Math.max(1, Math.round(width));
    this.height = Math.max(1, Math.round(height));
    // Differences along a line: what a pixel adds to the one before it.
    this.layers = [0, 1].map(() => new Float32Array((this.width + 1) * this.height));
  }

  /** Adds `weight` to layer 0 or 1 in [x0, x1) of the lines [y0, y1), all of them whole pixels. */
  add(layer, x0, x1, y0, y1, weight) {
    const first = Math.max(0, x0);
    const end = Math.min(this.width, x1);
    if (first >= end) return;
    const cells = this.layers[layer];
    for (let y = Math.max(0, y0); y < Math.min(this.height, y1); ++y) {
      cells[y * (this.width + 1) + first] += weight;
      cells[y * (this.width + 1) + end] -= weight;
    }
  }

  /** Layer 1 over layer 0, each in its colour ([red, green, blue]). */
  image(colours) {
    const image = new ImageData(this.width, this.height);
    const [under, over] = this.layers;
    for (let y = 0; y < this.height; ++y) {
      let below = 0;
      let above = 0;
      for (let x = 0; x < this.width; ++x) {
        const cell = y * (this.width + 1) + x;
        below += under[cell];
        above += over[cell];
        if (below < 1e-4 && above < 1e-4) continue;
        const colour = above >= 1e-4 ? colours[1] : colours[0];
        const cover = above >= 1e-4 ? above : below;
        const at = 4 * (y * this.width + x);
        image.data[at] = colour[0];
        image.data[at + 1] = colour[1];
        image.data[at + 2] = colour[2];
        image.data[at + 3] = Math.min(255, 70 + 185 * cover);
      }
    }
    return image;
  }
}
