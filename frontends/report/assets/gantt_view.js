// SPDX-License-Identifier: Apache-2.0
// Retention intervals: a row for each tensor in the order of the producers, in pieces where it is computed in slices, a
// bar for each stay in memory. A stay begun
// by a first compute is solid, one begun by a recompute hatched, and a dotted line joins it to the stay before. Where
// there are too many bars to tell apart, they are drawn as a raster.

const MOST_BARS = 3000;
const LABEL_ROW = 11;

class GanttView extends CanvasView {
  constructor(theme, across, cursor) {
    super("gantt", theme, { left: 72, right: 14, top: 24, bottom: 40 });
    this.across = across;
    this.down = new VisibleRange(1);
    this.cursor = cursor;
    this.row = 0;
    for (const range of [across, this.down]) range.listeners.push(() => this.invalidate());
    cursor.listeners.push(() => this.invalidate());
  }

  show(schedule) {
    this.schedule = schedule;
    this.graph = schedule.graph;
    this.down.resize(this.graph.rows.length);
    const [largest] = schedule.residents(this.cursor.step);
    this.row = largest === undefined ? 0 : this.graph.rowOf[schedule.shownStays.tensor[largest]];
    this.say(this.words());
    this.invalidate();
  }

  get rowHeight() { return this.plotHeight / this.down.length; }

  /** Whether a recompute, or a copy, began the stay. */
  isAgain(i) { return this.schedule.begunBy(i) > 0; }

  /** The stay in the row pointed at that covers the cursor, or -1. */
  stayHere() {
    const stays = this.schedule.shownStays;
    for (let i = 0; i < stays.count; ++i) {
      if (this.graph.rowOf[stays.tensor[i]] !== this.row) continue;
      if (stays.first[i] <= this.cursor.step && this.cursor.step <= stays.last[i]) return i;
    }
    return -1;
  }

  words() {
    if (this.graph.rows.length === 0) return this.graph.opCount === 0 ? "The graph has no ops." : "Nothing stays here.";
    const { tensors } = this.graph;
    const stay = this.stayHere();
    const tensor = stay < 0 ? this.graph.rows[this.row] : this.schedule.shownStays.tensor[stay];
    const { size } = this.schedule.shownStays;
    const bytes = size && stay >= 0 ? size[stay] : tensors.size[tensor];
    const what = `${tensors.name[tensor]}, ${bytesText(bytes)}, ` +
      `written by ${this.graph.opText(tensors.producer[tensor])}`;
    const step = `step ${grouped(this.cursor.step)}`;
    if (stay < 0) return `${what}: not in memory at ${step}.`;
    const stays = this.schedule.shownStays;
    return `${what}: in memory from step ${grouped(stays.first[stay])} to ${grouped(stays.last[stay])} ` +
      `after a ${BEGUN_WORDS[this.schedule.begunBy(stay)]}; ${step}.`;
  }

  point(x, y) {
    const step = Math.floor(this.fromX(x));
    const row = Math.floor(this.fromY(y));
    if (row >= 0 && row < this.down.count) this.row = row;
    if (step >= 0 && step < this.schedule.stepCount) this.cursor.move(step);
    this.say(this.words());
    this.invalidate();
  }

  step(dx, dy) {
    this.row = Math.min(this.down.count - 1, Math.max(0, this.row + dy));
    this.cursor.move(Math.min(this.schedule.stepCount - 1, Math.max(0, this.cursor.step + dx)));
    this.across.reveal(this.cursor.step);
    this.down.reveal(this.row);
    this.say(this.words());
    this.invalidate();
  }

  /** Shows what an op wrote: its rows, and all steps from its first compute to its last. */
  showOp(op) {
    const steps = this.schedule.steps;
    const row = this.graph.rowOf[this.graph.tensors.producer.indexOf(op)];
    const first = this.schedule.firstStep[op];
    const last = steps.lastIndexOf(op);
    const margin = Math.max(4, Math.ceil((last - first) * 0.15));
    this.across.show(first - margin, last + margin);
    this.down.show(row - 12, row + 13);
    this.row = row;
    this.cursor.move(last);
    this.say(this.words());
    this.canvas.scrollIntoView({ block: "center" });
    this.canvas.focus({ preventScroll: true });
  }

  toPeak() {
    this.cursor.move(Math.max(0, this.schedule.peakStep));
    this.across.reveal(this.cursor.step);
  }

  /** The step after the stay before, from which on a dotted line leads to a recompute's bar; else the first step. */
  beginOf(i) {
    const stays = this.schedule.shownStays;
    const earlier = this.isAgain(i) ? this.schedule.earlier[i] : -1;
    return earlier < 0 ? stays.first[i] : stays.last[earlier] + 1;
  }

  /** The stays that the shown steps meet, or the gaps before them. */
  visibleStays() {
    const stays = this.schedule.shownStays;
    const rowOf = this.graph.rowOf;
    const found = [];
    for (let i = 0; i < stays.count; ++i) {
      if (this.beginOf(i) >= this.across.end || stays.last[i] + 1 <= this.across.first) continue;
      const row = rowOf[stays.tensor[i]];
      if (row < this.down.end && row + 1 > this.down.first) found.push(i);
    }
    return found;
  }

  draw(context) {
    if (!this.schedule) return;
    const visible = this.visibleStays();
    if (visible.length > MOST_BARS || this.rowHeight < 1.5) {
      this.drawRaster(context, visible);
    } else {
      this.clipped(() => this.drawBars(context, visible));
    }
    this.clipped(() => this.drawPointers());
    const { left, top, bottom } = this.margins;
    this.line(left, top, left, this.height - bottom, this.theme.muted);
    this.drawAcrossTicks(this.schedule.found ? "step of the schedule" : "step of the input order");
    this.drawTimeTicks();
    this.drawRowTicks();
    this.text("tensor", left - 8, this.height - 8, this.theme.muted, "right");
  }

  drawRaster(context, visible) {
    const scale = this.scale;
    const raster = new Raster(this.plotWidth * scale, this.plotHeight * scale);
    const stays = this.schedule.shownStays;
    const weight = Math.min(1, this.rowHeight * scale);
    for (const i of visible) {
      const x0 = Math.floor((this.toX(stays.first[i]) - this.margins.left) * scale);
      const x1 = Math.max(x0 + 1, Math.ceil((this.toX(stays.last[i] + 1) - this.margins.left) * scale));
      const row = this.graph.rowOf[stays.tensor[i]];
      const y0 = Math.floor((this.toY(row) - this.margins.top) * scale);
      const y1 = Math.max(y0 + 1, Math.floor((this.toY(row + 1) - this.margins.top) * scale));
      raster.add(this.isAgain(i) ? 1 : 0, x0, x1, y0, y1, weight);
    }
    const image = raster.image([this.theme.channels(this.theme.after), this.theme.channels(this.theme.again)]);
    context.putImageData(image, Math.round(this.margins.left * scale), Math.round(this.margins.top * scale));
    this.shapes = 1;
  }

  drawBars(context, visible) {
    const stays = this.schedule.shownStays;
    const height = this.rowHeight;
    const inset = height > 4 ? Math.min(2, height * 0.15) : 0;
    for (const i of visible) {
      const x = Math.max(-10, this.toX(stays.first[i]));
      const end = Math.min(this.width + 10, this.toX(stays.last[i] + 1));
      const y = this.toY(this.graph.rowOf[stays.tensor[i]]);
      const again = this.isAgain(i);
      const colour = [this.theme.after, this.theme.again, this.theme.before][this.schedule.begunBy(i)];
      if (again && height >= 3) this.drawGap(i, x, y + height / 2);
      context.fillStyle = again && height >= 3 ? this.theme.hatch(context, colour) : colour;
      context.fillRect(x, y + inset, Math.max(1, end - x), Math.max(1, height - 2 * inset));
      if (again && height >= 6) {
        context.strokeStyle = colour;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + inset + 0.5, Math.max(1, end - x - 1), Math.max(1, height - 2 * inset - 1));
      }
      ++this.shapes;
    }
    if (height >= LABEL_ROW) this.drawNames(new Map(visible.map((i) => [this.graph.rowOf[stays.tensor[i]], i])));
  }

  drawGap(i, x, y) {
    const begin = this.beginOf(i);
    if (begin === this.schedule.stays.first[i]) return;
    this.line(Math.max(-10, this.toX(begin)), y, Math.min(this.width + 10, x), y, this.theme.again, [2, 3]);
    ++this.shapes;
  }

  /** Each name once: beside the last visible bar of its row, on a side with room, or inside a bar without end. */
  drawNames(lastStays) {
    const { left, right } = this.margins;
    for (const [row, i] of lastStays) {
      const name = this.graph.sourceName(this.schedule.shownStays.tensor[i]);
      const words = name.length > 40 ? name.slice(0, 38) + "\u2026" : name;
      const x = Math.min(this.width - right, Math.max(left, this.toX(this.schedule.shownStays.first[i])));
      const end = this.toX(this.schedule.shownStays.last[i] + 1);
      const y = this.toY(row + 0.5) + 4;
      const width = this.context.measureText(words).width + 8;
      if (this.width - right - end > width) this.drawName(words, end + 4, y, width);
      else if (x - left > width) this.drawName(words, x - 4 - width, y, width);
      else if (!this.isAgain(i) && end - x > width) this.text(words, x + 6, y, this.theme.back);
    }
  }

  drawName(words, x, y, width) {
    this.context.fillStyle = this.theme.back;
    this.context.fillRect(x, y - 10, width, 12);
    this.text(words, x + 4, y, this.theme.ink);
    ++this.shapes;
  }

  drawPointers() {
    const x = this.toX(this.cursor.step + 0.5);
    this.line(x, this.margins.top, x, this.height - this.margins.bottom, this.theme.ink, [1, 3]);
    const y = this.toY(this.row + 0.5);
    this.line(this.margins.left, y, this.width - this.margins.right, y, this.theme.ink, [1, 3]);
  }

  drawRowTicks() {
    for (const tick of roundTicks(this.down.first, this.down.end - 1, this.plotHeight / 60, 1)) {
      const y = this.toY(tick + 0.5);
      if (y < this.margins.top || y > this.height - this.margins.bottom) continue;
      this.text(grouped(tick), this.margins.left - 8, y + 4, this.theme.muted, "right");
    }
  }
}
