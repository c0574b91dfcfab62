// SPDX-License-Identifier: Apache-2.0
// The arena: time across, addresses upwards, a box for each buffer where it lies while it is in memory. Buffers of a
// first compute are plain, those of a recompute hatched, workspaces in the colour of the budget.

/** Pixels of the smallest box, so that small tensors stay visible. */
const SMALLEST = 2;

class ArenaView extends CanvasView {
  constructor(theme, across, cursor) {
    super("arena", theme, { left: 72, right: 14, top: 24, bottom: 40 });
    this.across = across;
    /** From the arena's end downwards. */
    this.down = new VisibleRange(1);
    this.cursor = cursor;
    this.address = 0;
    for (const range of [across, this.down]) range.listeners.push(() => this.invalidate());
    cursor.listeners.push(() => {
      this.invalidate();
      if (this.schedule) this.say(this.words());
    });
  }

  show(schedule) {
    this.schedule = schedule;
    this.boxes = schedule.arena.boxes;
    this.down.resize(schedule.arena.size, Math.min(schedule.arena.size, 16));
    this.address = 0;
    this.say(this.words());
    this.invalidate();
  }

  toLevel(address) { return this.toY(this.schedule.arena.size - address); }

  /** The box at the cursor's step that the address pointed at is in, or -1. */
  boxHere() {
    const { boxes, cursor, address } = this;
    for (let i = 0; i < boxes.count; ++i) {
      if (boxes.first[i] > cursor.step || boxes.last[i] < cursor.step) continue;
      if (boxes.offset[i] <= address && address < boxes.offset[i] + boxes.size[i]) return i;
    }
    return -1;
  }

  name(i) {
    const { graph, steps } = this.schedule;
    return this.boxes.tensor[i] < 0 ? `workspace of ${graph.opText(steps[this.boxes.first[i]])}`
      : graph.tensors.name[this.boxes.tensor[i]];
  }

  words() {
    const i = this.boxHere();
    const place = `Address ${grouped(this.address)}, step ${grouped(this.cursor.step)}`;
    if (i < 0) return `${place}: nothing lies there.`;
    const { boxes } = this;
    return `${place}: ${this.name(i)}, ${bytesText(boxes.size[i])} at ${grouped(boxes.offset[i])} to ` +
      `${grouped(boxes.offset[i] + boxes.size[i])}, from step ${grouped(boxes.first[i])} to ${grouped(boxes.last[i])}.`;
  }

  point(x, y) {
    const step = Math.floor(this.fromX(x));
    const address = this.schedule.arena.size - 1 - Math.floor(this.fromY(y));
    if (address >= 0 && address < this.schedule.arena.size) this.address = address;
    if (step >= 0 && step < this.schedule.stepCount) this.cursor.move(step);
    this.say(this.words());
    this.invalidate();
  }

  /** Up and down: to the next box at the cursor's step. */
  step(dx, dy) {
    const { boxes } = this;
    if (dx !== 0) {
      this.cursor.move(Math.min(this.schedule.stepCount - 1, Math.max(0, this.cursor.step + dx)));
      this.across.reveal(this.cursor.step);
    }
    let best = -1;
    for (let i = 0; dy !== 0 && i < boxes.count; ++i) {
      if (boxes.first[i] > this.cursor.step || boxes.last[i] < this.cursor.step) continue;
      const beyond = dy < 0 ? boxes.offset[i] > this.address : boxes.offset[i] + boxes.size[i] <= this.address;
      const nearer = best < 0 || (boxes.offset[i] < boxes.offset[best]) === (dy < 0);
      if (beyond && nearer) best = i;
    }
    if (best >= 0) this.address = boxes.offset[best];
    this.say(this.words());
    this.invalidate();
  }

  toPeak() {
    this.cursor.move(Math.max(0, this.schedule.peakStep));
    this.across.reveal(this.cursor.step);
  }

  draw(context) {
    if (!this.schedule) return;
    this.clipped(() => {
      this.drawBoxes(context);
      this.drawPointers();
    });
    const { left, top, bottom } = this.margins;
    this.line(left, top, left, this.height - bottom, this.theme.muted);
    this.drawAcrossTicks("step of the schedule");
    this.drawTimeTicks();
    this.drawAddresses();
  }

  drawBoxes(context) {
    const { boxes, theme } = this;
    const { size } = this.schedule.arena;
    const lowest = size - this.down.end;
    const highest = size - this.down.first;
    const small = [];
    for (let i = 0; i < boxes.count; ++i) {
      if (boxes.first[i] >= this.across.end || boxes.last[i] + 1 <= this.across.first) continue;
      if (boxes.offset[i] >= highest || boxes.offset[i] + boxes.size[i] <= lowest) continue;
      const x = Math.max(-10, this.toX(boxes.first[i]));
      const width = Math.max(1, Math.min(this.width + 10, this.toX(boxes.last[i] + 1)) - x);
      const y = this.toLevel(boxes.offset[i] + boxes.size[i]);
      const height = Math.max(SMALLEST, this.toLevel(boxes.offset[i]) - y);
      const again = this.schedule.again[boxes.first[i]] === 1;
      const colour = boxes.tensor[i] < 0 ? theme.budget : again ? theme.again : theme.after;
      const large = width > 3 && height > 3;
      if (height === SMALLEST) small.push([x, y, width, colour]);
      context.fillStyle = again && large ? theme.hatch(context, colour) : colour;
      context.fillRect(x, y, width, height);
      ++this.shapes;
      if (!large) continue;
      context.strokeStyle = theme.back;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
      if (height >= LABEL_ROW) this.drawLabel(this.name(i), x, y, width, height, again);
    }
    // Last, so that no large neighbour's border hides them.
    for (const [x, y, width, colour] of small) {
      context.fillStyle = colour;
      context.fillRect(x, y, width, SMALLEST);
    }
  }

  drawLabel(name, x, y, width, height, again) {
    const words = name.length > 40 ? name.slice(0, 38) + "\u2026" : name;
    const begin = Math.max(x, this.margins.left);
    if (again || begin + this.context.measureText(words).width + 8 > x + width) return;
    this.text(words, begin + 4, y + height / 2 + 4, this.theme.back);
  }

  drawPointers() {
    const x = this.toX(this.cursor.step + 0.5);
    this.line(x, this.margins.top, x, this.height - this.margins.bottom, this.theme.ink, [1, 3]);
    const y = this.toLevel(this.address);
    this.line(this.margins.left, y, this.width - this.margins.right, y, this.theme.ink, [1, 3]);
  }

  drawAddresses() {
    const { size } = this.schedule.arena;
    const unit = byteUnit(size);
    const scale = 1024 ** unit;
    const least = (size - this.down.end) / scale;
    for (const tick of roundTicks(least, (size - this.down.first) / scale, this.plotHeight / 60)) {
      const y = this.toLevel(tick * scale);
      this.line(this.margins.left - 4, y, this.margins.left, y, this.theme.muted);
      this.text(`${tickText(tick)} ${BYTE_UNITS[unit]}`, this.margins.left - 8, y + 4, this.theme.muted, "right");
    }
  }
}
