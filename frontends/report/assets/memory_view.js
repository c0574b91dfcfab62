// SPDX-License-Identifier: Apache-2.0
// Memory over the steps: the schedule as a filled line, the input order dashed, the budget as a long-dashed line, and
// what of the input order is above it hatched. Where several steps share a column of pixels, their largest is drawn.
// Amounts count above fixed memory, which has a band of its own that is not to scale.

const FIXED_BAND = 20;

class MemoryView extends CanvasView {
  constructor(theme, across, cursor) {
    super("memory", theme, { left: 72, right: 14, top: 26, bottom: 40 });
    this.across = across;
    this.cursor = cursor;
    across.listeners.push(() => this.invalidate());
    cursor.listeners.push(() => {
      this.invalidate();
      this.say(this.words(this.cursor.step));
    });
  }

  show(schedule) {
    this.schedule = schedule;
    const { fixed } = schedule.graph;
    this.fixed = fixed;
    this.band = fixed > 0 ? FIXED_BAND : 0;
    this.most = fixed + 1.06 * Math.max(schedule.mostMemory - fixed, 1);
    this.say(this.words(this.cursor.step));
    this.invalidate();
  }

  toLevel(bytes) {
    const floor = this.margins.top + this.plotHeight;
    if (bytes <= this.fixed) return floor - this.band * (this.fixed > 0 ? Math.max(0, bytes) / this.fixed : 0);
    return floor - this.band - (bytes - this.fixed) / (this.most - this.fixed) * (this.plotHeight - this.band);
  }

  words(step) {
    const schedule = this.schedule;
    const memory = schedule.memoryAt(step);
    const left = schedule.budget - memory;
    const again = schedule.found && schedule.again[step] ? ", recomputed" : "";
    const parts = [`Step ${grouped(step)} of ${grouped(schedule.stepCount)}: ` +
      `${schedule.stepText(step)}${again}. ${bytesText(memory)} in memory`];
    const { times, graph } = schedule;
    // Over several devices others may have begun before a step has ended.
    const end = schedule.ends ? schedule.ends[step] : times[step + 1];
    parts.push(`from ${durationText(times[step], graph.unit)} to ${durationText(end, graph.unit)}`);
    if (schedule.budget !== null) {
      parts.push(left >= 0 ? `${bytesText(left)} below the budget` : `${bytesText(-left)} above the budget`);
    }
    if (schedule.found && schedule.beforeMemory) parts.push(`the input order holds ${bytesText(schedule.beforeMemory[step])}`);
    return parts.join(", ") + ".";
  }

  point(x) {
    const step = Math.floor(this.fromX(x));
    if (step >= 0 && step < this.schedule.stepCount) this.cursor.move(step);
  }

  step(dx) {
    this.cursor.move(Math.min(this.schedule.stepCount - 1, Math.max(0, this.cursor.step + dx)));
    this.across.reveal(this.cursor.step);
  }

  toPeak() {
    this.cursor.move(Math.max(0, this.schedule.peakStep));
    this.across.reveal(this.cursor.step);
  }

  /** The corners of a stepped line over the visible values: at most two a column of pixels, and the first and last. */
  corners(values) {
    const points = [];
    const first = Math.max(0, Math.floor(this.across.first));
    const end = Math.min(this.schedule.stepCount, Math.ceil(this.across.end));
    const bundle = Math.max(1, Math.floor(this.across.length / this.plotWidth));
    for (let step = first - (first % bundle); step < end; step += bundle) {
      let most = -Infinity;
      for (let i = step; i < Math.min(end, step + bundle); ++i) if (values[i] > most) most = values[i];
      if (most === -Infinity) continue;
      const y = this.toLevel(most);
      points.push([this.toX(step), y], [this.toX(Math.min(end, step + bundle)), y]);
    }
    this.shapes += points.length / 2;
    return points;
  }

  trace(context, points) {
    context.beginPath();
    points.forEach(([x, y], i) => (i === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
  }

  fillDown(context, points, level, paint) {
    if (points.length === 0) return;
    this.trace(context, points);
    context.lineTo(points[points.length - 1][0], level);
    context.lineTo(points[0][0], level);
    context.closePath();
    context.fillStyle = paint;
    context.fill();
  }

  draw(context) {
    const schedule = this.schedule;
    if (!schedule) return;
    this.drawLevels();
    this.clipped(() => {
      const before = schedule.beforeMemory ? this.corners(schedule.beforeMemory) : [];
      const after = schedule.found ? this.corners(schedule.memory) : [];
      this.drawOverload(context, before);
      this.fillDown(context, after, this.toLevel(0), this.theme.fill);
      this.stroke(context, before, this.theme.before, [5, 3], 1.5);
      this.stroke(context, after, this.theme.after, [], 2);
      this.drawFixed();
      if (schedule.budget !== null) this.drawBudget();
      this.drawCursor();
      this.drawPeak(context);
    });
    this.drawAcrossTicks(schedule.found ? "step of the schedule" : "step of the input order");
    this.drawTimeTicks();
  }

  stroke(context, points, colour, dash, width) {
    this.trace(context, points);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
  }

  drawOverload(context, before) {
    if (before.length === 0) return;
    context.save();
    context.beginPath();
    context.rect(this.margins.left, 0, this.plotWidth, this.toLevel(this.schedule.budget));
    context.clip();
    this.fillDown(context, before, this.toLevel(0), this.theme.hatch(context, this.theme.before));
    context.restore();
  }

  drawLevels() {
    const above = this.most - this.fixed;
    const unit = byteUnit(above);
    const scale = 1024 ** unit;
    const right = this.width - this.margins.right;
    for (const tick of roundTicks(0, above / scale, this.plotHeight / 45)) {
      const y = this.toLevel(this.fixed + tick * scale);
      this.line(this.margins.left, y, right, y, this.theme.line);
      this.text(`${tickText(tick)} ${BYTE_UNITS[unit]}`, this.margins.left - 8, y + 4, this.theme.muted, "right");
    }
    if (this.band === 0) return;
    const top = this.toLevel(this.fixed);
    this.context.fillStyle = this.theme.line;
    this.context.fillRect(this.margins.left, top, this.plotWidth, this.band);
  }

  /** In the band, over what is drawn there. */
  drawFixed() {
    if (this.band === 0) return;
    this.text(`fixed memory ${bytesText(this.fixed)}, not to scale`, this.margins.left + 8, this.toLevel(0) - 6,
      this.theme.ink);
  }

  drawBudget() {
    const y = this.toLevel(this.schedule.budget);
    this.line(this.margins.left, y, this.width - this.margins.right, y, this.theme.budget, [12, 4], 1.5);
    const words = this.schedule.budgetText;
    const context = this.context;
    const width = context.measureText(words).width;
    context.fillStyle = this.theme.back;
    context.globalAlpha = 0.85;
    context.fillRect(this.margins.left + 4, y - 18, width + 8, 15);
    context.globalAlpha = 1;
    this.text(words, this.margins.left + 8, y - 6, this.theme.budget);
  }

  drawCursor() {
    const x = this.toX(this.cursor.step + 0.5);
    this.line(x, this.margins.top, x, this.height - this.margins.bottom, this.theme.ink, [1, 3]);
    const y = this.toLevel(this.schedule.memoryAt(this.cursor.step));
    this.context.fillStyle = this.theme.ink;
    this.context.beginPath();
    this.context.arc(x, y, 3.5, 0, 2 * Math.PI);
    this.context.fill();
  }

  drawPeak(context) {
    const step = this.schedule.peakStep;
    if (step < 0) return;
    const x = this.toX(step + 0.5);
    const y = this.toLevel(this.schedule.memoryAt(step)) - 4;
    context.fillStyle = this.schedule.found ? this.theme.after : this.theme.before;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 5, y - 8);
    context.lineTo(x + 5, y - 8);
    context.closePath();
    context.fill();
  }
}
