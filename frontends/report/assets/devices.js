// SPDX-License-Identifier: Apache-2.0
// Schedules over several devices: a part for each device, which the views of one device show, and lanes over time for all.

const BEGUN_WORDS = ["first compute", "recompute", "copy"];

/** Rows of numbers that were written flat, as objects. */
function decodeRows(flat, names) {
  const rows = [];
  for (let i = 0; i < flat.length; i += names.length) {
    rows.push(Object.fromEntries(names.map((name, k) => [name, flat[i + k]])));
  }
  return rows;
}

/** What one device holds: what MemoryView, GanttView and ResidentsTable ask of a schedule. */
class DevicePart {
  constructor(schedule, device) {
    const { graph } = schedule;
    const { budget, peak, peak_step: peakStep, memory, stays, begun } = schedule.devices[device];
    Object.assign(this, { schedule, device, budget, peakStep, memory, begun });
    this.found = true;
    this.mostMemory = Math.max(peak, budget ?? 0);
    this.stays = decodeStays(stays);
    this.graph = Object.create(graph);
    this.graph.fixed = graph.devices.fixed[device];
    this.graph.base = graph.devices.base[device];
    this.graph.showRows([...new Set(this.stays.tensor)].sort((a, b) =>
      graph.tensors.producer[a] - graph.tensors.producer[b] || a - b));
    for (const key of ["stepCount", "steps", "times", "ends", "again", "firstStep"]) this[key] = schedule[key];
    this.earlier = earlierStays(graph, this.stays);
  }

  get shownStays() { return this.stays; }
  get budgetText() { return `budget of ${this.graph.devices.name[this.device]} ${bytesText(this.budget)}`; }
  memoryAt(step) { return this.memory[step]; }
  begunBy(i) { return this.begun[i]; }
  residents(step) { return residentsAt(this.graph, this.stays, step); }
  stepText(step) { return this.schedule.stepText(step); }
  workspaceAt(step) { return this.schedule.device[step] === this.device ? this.schedule.workspace[step] : 0; }
  writerAt(step) { return this.schedule.steps[step] < 0 ? "" : this.graph.ops.name[this.schedule.steps[step]]; }
}

class DeviceScheduleData {
  constructor(block, graph) {
    Object.assign(this, block);
    this.graph = graph;
    this.found = this.steps.length > 0;
    this.stepCount = this.steps.length;
    const computed = new Uint8Array(graph.opCount);
    this.again = new Uint8Array(this.stepCount);
    this.firstStep = new Int32Array(graph.opCount).fill(-1);
    this.steps.forEach((op, step) => {
      if (op < 0) return;
      this.again[step] = computed[op];
      if (!computed[op]) this.firstStep[op] = step;
      computed[op] = 1;
    });
    const spent = ["times", "duration", "energy"];
    this.runs = decodeRows(this.runs, ["device", "times", "again", "duration", "energy"]);
    this.again_runs = decodeRows(block.again, ["op", "device", "times", "again", "duration", "energy"]);
    this.links = decodeRows(this.links, ["from", "to", "times", "bytes", ...spent.slice(1)]);
    this.transfers = decodeRows(this.transfers, ["tensor", "from", "to", "times", "bytes", ...spent.slice(1)]);
    this.parts = this.devices.map((_, device) => new DevicePart(this, device));
  }

  deviceName(device) { return this.graph.devices.name[device]; }
  linkName(link) { return `${this.deviceName(link.from)} \u2192 ${this.deviceName(link.to)}`; }

  stepText(step) {
    if (this.steps[step] >= 0) return `${this.graph.opText(this.steps[step])} on ${this.deviceName(this.device[step])}`;
    return `copy of ${this.graph.tensors.name[this.copied[step]]} from ${this.deviceName(this.device[step])} ` +
      `to ${this.deviceName(this.to[step])}`;
  }
}

// Lanes over time: what runs on each lane of a device, the memory that it holds, and what each link carries.

const LANE = 22;
const PANEL = 70;

class LanesView extends CanvasView {
  constructor(theme, cursor) {
    super("lanes", theme, { left: 128, right: 14, top: 8, bottom: 40 });
    this.across = new VisibleRange(1, 1);
    this.cursor = cursor;
    this.across.listeners.push(() => this.invalidate());
    cursor.listeners.push(() => {
      // The page of one device has the lanes, hidden and without a schedule.
      if (!this.schedule) return;
      this.invalidate();
      this.say(this.words(cursor.step));
    });
  }

  show(schedule) {
    this.schedule = schedule;
    const end = schedule.times[schedule.stepCount] || 1;
    this.across.resize(end, Math.max(1, end / 1e6));
    this.rows = [];
    let top = 0;
    schedule.streams.forEach((name, stream) => {
      const device = schedule.runs[stream]?.device;
      this.rows.push({ stream, top, name: name.replace("->", "\u2192"), copies: device === undefined });
      top += LANE;
      // Below the last lane of a device, its memory.
      if (device === undefined || schedule.runs[stream + 1]?.device === device) return;
      this.rows[stream].device = device;
      top += PANEL;
    });
    this.canvas.style.height = `${top + this.margins.top + this.margins.bottom}px`;
    this.say(this.words(this.cursor.step));
    this.invalidate();
  }

  words(step) {
    const schedule = this.schedule;
    const { unit } = schedule.graph;
    const again = schedule.again[step] ? ", recomputed" : "";
    const held = schedule.parts.map((part, device) => `${schedule.deviceName(device)} ${bytesText(part.memory[step])}` +
      (part.budget === null ? "" : ` of ${bytesText(part.budget)}`));
    return `Step ${grouped(step)} of ${grouped(schedule.stepCount)}: ${schedule.stepText(step)}${again}, ` +
      `from ${durationText(schedule.times[step], unit)} to ${durationText(schedule.ends[step], unit)}. ` +
      `In memory: ${held.join(", ")}.`;
  }

  /** The first step that ends after the time, or the last one. */
  stepAt(time) {
    const { times, stepCount } = this.schedule;
    let low = 0;
    let high = stepCount - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle + 1] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  point(x) {
    const time = this.fromX(x);
    if (time >= 0 && time <= this.across.count) this.cursor.move(this.stepAt(time));
  }

  step(dx) {
    this.cursor.move(Math.min(this.schedule.stepCount - 1, Math.max(0, this.cursor.step + dx)));
    this.across.reveal(this.schedule.times[this.cursor.step]);
  }

  toPeak() {
    const [part] = [...this.schedule.parts].sort((a, b) => b.mostMemory - a.mostMemory);
    this.cursor.move(Math.max(0, part.peakStep));
    this.across.reveal(this.schedule.times[this.cursor.step]);
  }

  draw(context) {
    if (!this.schedule) return;
    this.shown = [this.stepAt(this.across.first), this.stepAt(this.across.end) + 1];
    for (const row of this.rows) {
      const y = this.margins.top + row.top;
      const name = row.name.length > 20 ? row.name.slice(0, 19) + "\u2026" : row.name;
      this.text(name, this.margins.left - 8, y + LANE / 2 + 4, this.theme.ink, "right");
      if (row.device !== undefined) this.drawLevels(row, y + LANE);
    }
    this.clipped(() => {
      for (const row of this.rows) {
        const y = this.margins.top + row.top;
        this.drawBars(context, row, y);
        if (row.device !== undefined) this.drawMemory(context, row, y + LANE);
        this.line(this.margins.left, y, this.width - this.margins.right, y, this.theme.line);
      }
      const { times, ends } = this.schedule;
      const x = this.toX((times[this.cursor.step] + ends[this.cursor.step]) / 2);
      this.line(x, this.margins.top, x, this.height - this.margins.bottom, this.theme.ink, [1, 3]);
    });
    this.drawTimes();
  }

  drawTimes() {
    const bottom = this.height - this.margins.bottom;
    this.line(this.margins.left, bottom, this.width - this.margins.right, bottom, this.theme.muted);
    for (const tick of roundTicks(this.across.first, this.across.end, this.plotWidth / 90)) {
      const x = this.toX(tick);
      this.line(x, bottom, x, bottom + 4, this.theme.muted);
      this.text(timeTick(tick, this.across.end, this.schedule.graph.unit), x, bottom + 16, this.theme.muted, "center");
    }
    this.text("time", this.width - this.margins.right, bottom + 32, this.theme.muted, "right");
  }

  isIn(row, step) {
    return this.schedule.stream[step] === row.stream;
  }

  /** Of the lane's steps that have begun before what is shown, the last one may reach into it. */
  firstShown(row) {
    let step = this.shown[0];
    while (step > 0 && !this.isIn(row, step)) --step;
    return step;
  }

  /** Bars of a pixel at least; what lies within a pixel that is drawn already is left out. */
  drawBars(context, row, y) {
    const { times, ends, again } = this.schedule;
    let drawn = -Infinity;
    for (let step = this.firstShown(row); step < this.shown[1]; ++step) {
      if (!this.isIn(row, step)) continue;
      const end = Math.min(this.width, Math.max(this.toX(ends[step]), this.toX(times[step]) + 1));
      const x = Math.max(drawn, this.margins.left - 2, this.toX(times[step]));
      if (end - x < 0.25) continue;
      drawn = end;
      const colour = row.copies ? this.theme.before : again[step] ? this.theme.again : this.theme.after;
      context.fillStyle = again[step] && end - x > 3 ? this.theme.hatch(context, colour) : colour;
      context.fillRect(x, y + 3, end - x - (end - x > 3 ? 1 : 0), LANE - 6);
      ++this.shapes;
    }
  }

  /** Memory of a device above its fixed memory, of 1 at the panel's top. */
  levelOf(part, bytes) {
    return (bytes - part.graph.fixed) / Math.max(1, 1.06 * (part.mostMemory - part.graph.fixed));
  }

  drawLevels(row, y) {
    const part = this.schedule.parts[row.device];
    const bottom = y + PANEL - 4;
    this.text(bytesText(part.mostMemory), this.margins.left - 8, y + 12, this.theme.muted, "right");
    if (part.graph.fixed > 0) {
      this.text(`above ${bytesText(part.graph.fixed)}`, this.margins.left - 8, bottom, this.theme.muted, "right");
    }
  }

  drawMemory(context, row, y) {
    const part = this.schedule.parts[row.device];
    const { times } = this.schedule;
    const bottom = y + PANEL - 4;
    const toLevel = (bytes) => bottom - Math.max(0, this.levelOf(part, bytes)) * (PANEL - 8);
    context.beginPath();
    context.moveTo(this.toX(times[this.shown[0]]), bottom);
    let column = -Infinity;
    let level = bottom;
    for (let step = this.shown[0]; step < this.shown[1]; ++step) {
      const x = this.toX(times[step]);
      const here = toLevel(part.memory[step]);
      // The largest of the steps that share a pixel.
      level = x - column < 1 ? Math.min(level, here) : here;
      if (x - column >= 1) column = x;
      context.lineTo(Math.max(x, column), level);
      context.lineTo(this.toX(times[step + 1]), level);
      ++this.shapes;
    }
    context.strokeStyle = this.theme.after;
    context.lineWidth = 1.5;
    context.stroke();
    context.lineTo(this.toX(times[this.shown[1]]), bottom);
    context.fillStyle = this.theme.fill;
    context.fill();
    if (part.budget === null) return;
    const limit = toLevel(part.budget);
    this.line(this.margins.left, limit, this.width - this.margins.right, limit, this.theme.budget, [12, 4], 1.5);
  }
}

function showDeviceHeadline(place, schedule) {
  const { unit } = schedule.graph;
  const cost = (amount) => (schedule.objective === "energy" ? grouped(amount) : durationText(amount, unit));
  const figures = [];
  const again = new Set(schedule.again_runs.map((row) => row.op)).size;
  document.getElementById("verdict").textContent = !schedule.found ? "No schedule within the budgets is known."
    : `Fits within the budgets; ${again === 0 ? "nothing is" : again === 1 ? "1 op is" : `${grouped(again)} ops are`} recomputed.`;
  if (schedule.found) {
    const base = schedule.baseline_duration;
    figures.push(figure("Duration", "duration", durationText(schedule.duration, unit),
      `${signedPercent((schedule.duration - base) / Math.max(1, base))} over ${durationText(base, unit)}, the best without ` +
      "memory limits"));
    if (schedule.energy > 0) figures.push(figure("Energy", "energy", grouped(schedule.energy), "of all runs and copies"));
  }
  if (schedule.status !== "infeasible") {
    const value = schedule.objective === "energy" ? schedule.energy : schedule.duration;
    figures.push(figure("Lower bound", "bound", cost(schedule.lower_bound), schedule.found
      ? `gap ${percentText((value - schedule.lower_bound) / Math.max(1, value))}` : "on any schedule"));
  }
  schedule.parts.forEach((part, device) => {
    const name = schedule.deviceName(device);
    const peak = schedule.devices[device].peak;
    if (schedule.found) {
      figures.push(figure(`Peak on ${name}`, `peak-${device}`, bytesText(peak),
        part.budget === null ? "no budget" : `of ${bytesText(part.budget)}`));
    } else if (part.budget !== null) {
      figures.push(figure(`Budget of ${name}`, `peak-${device}`, bytesText(part.budget), `${grouped(part.budget)} bytes`));
    }
  });
  figures.push(figure("Status", "status", STATUS_WORDS[schedule.status],
    `${STATUS_NOTES[schedule.status]}, ${schedule.order} order, least ${schedule.objective}` +
      (schedule.copies === "overlap" ? ", copies beside computing" : "")));
  place.replaceChildren(...figures);
}

function showDeviceRefusal(place, schedule) {
  place.hidden = schedule.found;
  if (schedule.found) return;
  const note = schedule.solver.pairs.find(([name]) => name === "Note");
  const why = schedule.status === "infeasible" ? "It is proved that no schedule holds the budgets"
    : "None was found within the limits of the search, and none was proved impossible";
  place.replaceChildren(element("h2", {}, "Why there is no schedule"),
    element("p", {}, note ? `${why}: ${note[1]}.` : why + "."));
}

/** The tables of where time goes, what is copied and what runs again. */
function fillDeviceTables(schedule) {
  const { graph } = schedule;
  const number = (words) => element("td", { class: "number" }, words);
  const time = (row) => [number(durationText(row.duration, graph.unit)),
    number(percentText(row.duration / Math.max(1, schedule.duration), 1)), number(grouped(row.energy))];
  const name = (words) => element("th", { scope: "row", class: "name" }, words);
  const fill = (id, rows) => {
    document.querySelector(`#${id} tbody`).replaceChildren(...rows);
    document.getElementById(id).closest(".table").hidden = rows.length === 0;
  };
  fill("lane-table", [
    ...schedule.runs.map((row, lane) => element("tr", {}, name(schedule.streams[lane]), number(grouped(row.times)),
      number(grouped(row.again)), number(""), ...time(row))),
    ...schedule.links.map((row) => element("tr", {}, name(schedule.linkName(row)), number(grouped(row.times)), number(""),
      number(bytesText(row.bytes)), ...time(row)))]);
  fill("copy-table", schedule.transfers.map((row) => element("tr", {}, name(graph.tensors.name[row.tensor]),
    element("td", {}, schedule.linkName(row)), number(grouped(row.times)), number(bytesText(row.bytes)), ...time(row))));
  fill("again-table", schedule.again_runs.map((row) => element("tr", {}, name(graph.opText(row.op)),
    element("td", {}, schedule.deviceName(row.device)), number(grouped(row.times)), number(grouped(row.again)),
    ...time(row))));
}
