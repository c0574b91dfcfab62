// SPDX-License-Identifier: Apache-2.0
// One of Checkmate's matrices (Jain et al. 2020): ops across, stages down. R has a mark where an op is computed in a
// stage: a square for its first compute, a hatched one for a recompute. S is filled where what the op wrote is retained
// into the stage. Marks are never smaller than two pixels, so that none gets lost.

class MatrixView extends CanvasView {
  constructor(name, theme, across, down) {
    super(name, theme, { left: 44, right: 10, top: 8, bottom: 40 });
    this.across = across;
    this.down = down;
    this.cell = { op: 0, stage: 0 };
    for (const range of [across, down]) range.listeners.push(() => this.invalidate());
  }

  /** `runs`: flat [op, first stage, last stage, whether again, ...]. */
  show(schedule, runs, words) {
    this.schedule = schedule;
    this.runs = runs;
    this.words = words;
    this.cell = { op: 0, stage: 0 };
    this.sayCell();
    this.invalidate();
  }

  sayCell() {
    const { op, stage } = this.cell;
    if (this.schedule.graph.opCount === 0) return;
    this.say(`Stage ${grouped(stage)}, op ${grouped(op)} ${this.schedule.graph.opText(op)}: ` +
      `${this.words(this.stateOf(op, stage))}.`);
  }

  /** 0 not there, 1 there, 2 there again. */
  stateOf(op, stage) {
    for (let i = 0; i < this.runs.length; i += 4) {
      if (this.runs[i] === op && this.runs[i + 1] <= stage && stage <= this.runs[i + 2]) return 1 + this.runs[i + 3];
    }
    return 0;
  }

  pointAt(op, stage) {
    if (op < 0 || stage < 0 || op >= this.across.count || stage >= this.down.count) return;
    this.cell = { op, stage };
    this.sayCell();
    this.invalidate();
  }

  point(x, y) { this.pointAt(Math.floor(this.fromX(x)), Math.floor(this.fromY(y))); }
  step(dx, dy) {
    this.pointAt(this.cell.op + dx, this.cell.stage + dy);
    this.across.reveal(this.cell.op);
    this.down.reveal(this.cell.stage);
  }

  /** The op and the stage of the step with the peak. */
  toPeak() {
    const { peakStep, steps, stage } = this.schedule;
    if (peakStep < 0) return;
    this.pointAt(steps[peakStep], stage[peakStep]);
    this.across.reveal(this.cell.op);
    this.down.reveal(this.cell.stage);
  }

  draw(context) {
    if (!this.schedule) return;
    const visible = this.visibleRuns();
    const cell = Math.min(this.plotWidth / this.across.length, this.plotHeight / this.down.length);
    if (cell < 4 || visible.length > MOST_BARS) this.drawRaster(context, visible);
    else this.clipped(() => this.drawCells(context, visible, cell));
    this.clipped(() => this.drawPointer(cell));
    const { left, top, bottom, right } = this.margins;
    context.strokeStyle = this.theme.muted;
    context.lineWidth = 1;
    context.strokeRect(left, top, this.plotWidth, this.height - top - bottom);
    this.drawAcrossTicks("op");
    for (const tick of roundTicks(this.down.first, this.down.end - 1, this.plotHeight / 70, 1)) {
      const y = this.toY(tick + 0.5);
      if (y >= top && y <= this.height - bottom) this.text(grouped(tick), left - 6, y + 4, this.theme.muted, "right");
    }
    this.text("stage", left, this.height - 8, this.theme.muted, "left");
  }

  visibleRuns() {
    const found = [];
    for (let i = 0; i < this.runs.length; i += 4) {
      if (this.runs[i] >= this.across.end || this.runs[i] + 1 <= this.across.first) continue;
      if (this.runs[i + 1] < this.down.end && this.runs[i + 2] + 1 > this.down.first) found.push(i);
    }
    return found;
  }

  drawRaster(context, visible) {
    const scale = this.scale;
    const raster = new Raster(this.plotWidth * scale, this.plotHeight * scale);
    const least = Math.round(2 * scale);
    const weight = Math.min(1, Math.max(0.25, this.plotWidth / this.across.length * scale));
    for (const i of visible) {
      const x0 = Math.floor((this.toX(this.runs[i]) - this.margins.left) * scale);
      const x1 = Math.floor((this.toX(this.runs[i] + 1) - this.margins.left) * scale);
      const y0 = Math.floor((this.toY(this.runs[i + 1]) - this.margins.top) * scale);
      const y1 = Math.floor((this.toY(this.runs[i + 2] + 1) - this.margins.top) * scale);
      const mark = this.runs[i + 1] === this.runs[i + 2] ? least : 1;
      raster.add(this.runs[i + 3], x0, Math.max(x0 + mark, x1), y0, Math.max(y0 + mark, y1), mark > 1 ? 1 : weight);
    }
    const image = raster.image([this.theme.channels(this.theme.after), this.theme.channels(this.theme.again)]);
    context.putImageData(image, Math.round(this.margins.left * scale), Math.round(this.margins.top * scale));
    this.shapes = 1;
  }

  /** Hatching needs room to be seen: small cells are told by their colour and their place off the diagonal. */
  drawCells(context, visible, cell) {
    const gap = cell > 10 ? 0.5 : 0;
    for (const i of visible) {
      const x = this.toX(this.runs[i]);
      const y = this.toY(this.runs[i + 1]);
      const again = this.runs[i + 3] === 1;
      const right = this.toX(this.runs[i] + 1) - gap;
      const bottom = this.toY(this.runs[i + 2] + 1) - gap;
      context.fillStyle = !again ? this.theme.after
        : cell > 10 ? this.theme.hatch(context, this.theme.again) : this.theme.again;
      context.fillRect(x + gap, y + gap, right - x - gap, bottom - y - gap);
      ++this.shapes;
    }
  }

  drawPointer(cell) {
    const x = this.toX(this.cell.op);
    const y = this.toY(this.cell.stage);
    const size = Math.max(5, cell);
    this.context.strokeStyle = this.theme.ink;
    this.context.lineWidth = 1.5;
    this.context.strokeRect(x, y, Math.max(size, this.toX(this.cell.op + 1) - x),
      Math.max(size, this.toY(this.cell.stage + 1) - y));
  }
}
