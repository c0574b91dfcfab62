// SPDX-License-Identifier: Apache-2.0
// Amounts as people read them; the same words as `remora solve` prints.

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function grouped(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

function byteUnit(most) {
  let unit = 0;
  for (let value = Math.abs(most); value >= 1024 && unit + 1 < BYTE_UNITS.length; value /= 1024) ++unit;
  return unit;
}

function bytesText(bytes) {
  const unit = byteUnit(bytes);
  return unit === 0 ? `${bytes} B` : `${(bytes / 1024 ** unit).toFixed(2)} ${BYTE_UNITS[unit]}`;
}

function durationText(duration, unit) {
  if (unit !== "ns") return grouped(duration) + (unit ? " " + unit : "");
  const names = ["ns", "\u00b5s", "ms", "s"];
  let name = 0;
  for (; Math.abs(duration) >= 1000 && name + 1 < names.length; ++name) duration /= 1000;
  return (name === 0 ? duration.toFixed(0) : duration.toFixed(2)) + " " + names[name];
}

function percentText(part, digits = 2) {
  return (100 * part).toFixed(digits) + " %";
}

function signedPercent(part, digits = 2) {
  return (part >= 0 ? "+" : "") + percentText(part, digits);
}

function plural(count, word) {
  return `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** A time as a tick, in the unit that suits `most`. */
function timeTick(time, most, unit) {
  if (unit !== "ns") return tickText(time) + (unit ? " " + unit : "");
  const names = ["ns", "\u00b5s", "ms", "s"];
  let name = 0;
  for (; most >= 1000 && name + 1 < names.length; ++name, most /= 1000) time /= 1000;
  return `${tickText(Number(time.toPrecision(6)))} ${names[name]}`;
}

/** Ends of about `wanted` round steps within [least, most]: multiples of 1, 2 or 5 times a power of ten. */
function roundTicks(least, most, wanted, smallest = 0) {
  const rough = Math.max((most - least) / Math.max(1, wanted), 1e-12);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(smallest, power * ([1, 2, 5].find((factor) => factor * power >= rough * (1 - 1e-9)) ?? 10));
  const ticks = [];
  for (let i = Math.ceil(least / step - 1e-9); i * step <= most * (1 + 1e-12) + 1e-12; ++i) ticks.push(i * step);
  return ticks;
}

/** A tick as people write it: no trailing zeros, no binary dust. */
function tickText(value) {
  return Number.isInteger(value) ? grouped(value) : String(Number(value.toPrecision(6)));
}

/** An element with attributes and children; text never becomes markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// The embedded data, decoded: flat arrays of numbers, not an object per interval.

function readBlock(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** Stays are written as [tensor, first step less that of the one before, steps after the first, ...]. */
function decodeStays(flat, size) {
  const count = flat.length / 3;
  const stays = { count, size, tensor: new Int32Array(count), first: new Int32Array(count), last: new Int32Array(count) };
  let first = 0;
  for (let i = 0; i < count; ++i) {
    first += flat[3 * i + 1];
    stays.tensor[i] = flat[3 * i];
    stays.first[i] = first;
    stays.last[i] = first + flat[3 * i + 2];
  }
  return stays;
}

/** Boxes are written as [tensor or -1, first step, steps after the first, offset, size, ...]. */
function decodeBoxes(flat) {
  const count = flat.length / 5;
  const boxes = { count, tensor: new Int32Array(count), first: new Int32Array(count), last: new Int32Array(count),
    offset: new Float64Array(count), size: new Float64Array(count) };
  for (let i = 0; i < count; ++i) {
    boxes.tensor[i] = flat[5 * i];
    boxes.first[i] = flat[5 * i + 1];
    boxes.last[i] = flat[5 * i + 1] + flat[5 * i + 2];
    boxes.offset[i] = flat[5 * i + 3];
    boxes.size[i] = flat[5 * i + 4];
  }
  return boxes;
}

class GraphData {
  constructor(block) {
    Object.assign(this, block);
    this.opCount = this.ops.name.length;
    if (this.before) this.before.stays = decodeStays(this.before.stays, this.before.sizes);
    const produced = [];
    for (let t = 0; t < this.tensors.name.length; ++t) if (this.tensors.producer[t] >= 0) produced.push(t);
    this.showRows(produced.sort((a, b) => this.tensors.producer[a] - this.tensors.producer[b] || a - b));
  }

  /** Rows of the Gantt chart: tensors in the order of their producers, first outputs first; slices share a row. */
  showRows(tensors) {
    this.rows = [];
    this.rowOf = new Int32Array(this.tensors.name.length).fill(-1);
    const rowOfSource = new Map();
    for (const t of tensors) {
      const source = this.slices ? this.slices.source[t] : t;
      if (!rowOfSource.has(source)) {
        rowOfSource.set(source, this.rows.length);
        this.rows.push(t);
      }
      this.rowOf[t] = rowOfSource.get(source);
    }
  }

  /** The tensor of the graph as it was, of which the tensor may be a slice. */
  sourceName(tensor) {
    return this.slices ? this.slices.names[this.slices.source[tensor]] : this.tensors.name[tensor];
  }

  /** The peak of the input order without recomputation, of the graph as it was. */
  get wholePeak() { return this.slices ? this.slices.peak : this.before.peak; }

  /** A part of the peak, above fixed memory as percentages of budgets are. */
  partOfPeak(bytes) {
    const above = this.wholePeak - this.fixed;
    return above > 0 ? (bytes - this.fixed) / above : 1;
  }

  /** "60.0 % of the peak", or what it leaves out. */
  partText(bytes) {
    if (bytes < this.fixed) return `${bytesText(this.fixed - bytes)} less than the fixed memory of ${bytesText(this.fixed)}`;
    const percent = percentText(this.partOfPeak(bytes), 1);
    return this.fixed > 0 ? `${bytesText(this.fixed)} fixed + ${percent} of the rest of the peak` : `${percent} of the peak`;
  }

  opText(op) {
    if (op < 0) return "no op";
    const type = this.ops.types[this.ops.type[op]];
    return type ? `${this.ops.name[op]} (${type})` : this.ops.name[op];
  }
}

/** What holds memory at a step of a replay, largest first. */
function residentsAt(graph, stays, step) {
  const found = [];
  for (let i = 0; i < stays.count; ++i) if (stays.first[i] <= step && step <= stays.last[i]) found.push(i);
  const size = (i) => (stays.size ? stays.size[i] : graph.tensors.size[stays.tensor[i]]);
  return found.sort((a, b) => size(b) - size(a) || a - b);
}

/** Of every stay, the one of the same tensor before it, or -1. */
function earlierStays(graph, stays) {
  const latest = new Int32Array(graph.tensors.name.length).fill(-1);
  const earlier = new Int32Array(stays.count);
  for (let i = 0; i < stays.count; ++i) {
    earlier[i] = latest[stays.tensor[i]];
    latest[stays.tensor[i]] = i;
  }
  return earlier;
}

const SLOWER_NUMBERS = ["op", "mode", "faster", "saved", "steps", "worst", "above"];

class ScheduleData {
  constructor(block, graph) {
    Object.assign(this, block);
    this.graph = graph;
    this.found = this.steps.length > 0;
    this.stays = decodeStays(this.stays, this.sizes);
    if (this.arena) this.arena.boxes = decodeBoxes(this.arena.boxes);
    this.stepCount = this.found ? this.steps.length : graph.opCount;
    this.findRepeats();
    this.findBefore();
    this.findTimes();
    this.slowerModes = new Map(decodeRows(this.slower_modes || [], SLOWER_NUMBERS).map((row) => [`${row.op} ${row.mode}`, row]));
    this.earlier = earlierStays(graph, this.stays);
  }

  /** Which steps run their op again, and each step's stage: how many ops have run before it. */
  findRepeats() {
    const computed = new Uint8Array(this.graph.opCount);
    this.again = new Uint8Array(this.steps.length);
    this.stage = new Int32Array(this.steps.length);
    this.firstStep = new Int32Array(this.graph.opCount).fill(-1);
    let stage = 0;
    this.steps.forEach((op, step) => {
      this.stage[step] = stage;
      this.again[step] = computed[op];
      if (!computed[op]) {
        this.firstStep[op] = step;
        ++stage;
      }
      computed[op] = 1;
    });
  }

  /**
   * The input order beside the schedule: what it holds at each op lies where the schedule first computes that op, and
   * over the recomputes just before; after the last first compute, what the last of them has.
   */
  findBefore() {
    const memory = this.graph.before.memory;
    if (!this.found) {
      this.beforeMemory = Float64Array.from(memory);
      return;
    }
    this.beforeMemory = new Float64Array(this.stepCount);
    let beside = this.steps[this.again.lastIndexOf(0)];
    for (let step = this.stepCount - 1; step >= 0; --step) {
      if (!this.again[step]) beside = this.steps[step];
      this.beforeMemory[step] = memory[beside];
    }
  }

  /** When each step begins, and at last when the last one ends. */
  findTimes() {
    this.times = new Float64Array(this.stepCount + 1);
    for (let step = 0; step < this.stepCount; ++step) {
      this.times[step + 1] = this.times[step] + this.ofStep("durations", step, this.graph.ops.duration);
    }
  }

  /** Memory and residents at a step; of the input order where no schedule was found. */
  memoryAt(step) { return this.found ? this.memory[step] : this.beforeMemory[step]; }
  opAt(step) { return this.found ? this.steps[step] : step; }
  residents(step) { return residentsAt(this.graph, this.shownStays, step); }
  /** A figure of a step: of its mode where ops have several, else of its op. */
  ofStep(figure, step, ofOp) {
    const figures = (this.found ? this : this.graph.before)[figure];
    return figures ? figures[step] : ofOp[this.opAt(step)];
  }
  stepText(step) {
    const text = this.graph.opText(this.opAt(step));
    if (!this.found || !this.modes) return text;
    const slower = this.slowerModes.get(`${this.steps[step]} ${this.modes[step]}`);
    return (this.modes[step] > 0 ? `${text} in mode ${this.modes[step]}` : text) + (slower ? this.slowerText(slower) : "");
  }
  /** Why a run is by a mode although another is faster. */
  slowerText({ faster, saved, steps, worst, above }) {
    const why = steps > 0 ? `but ${bytesText(above)} above the budget at ${this.graph.ops.name[worst]}` : "and would fit";
    return ` (mode ${faster} is ${durationText(saved, this.graph.unit)} faster, ${why})`;
  }
  workspaceAt(step) { return this.ofStep("workspaces", step, this.graph.ops.workspace); }
  writerAt(step) { return this.graph.ops.name[this.opAt(step)]; }
  /** What began a stay: 0 a first compute, 1 a recompute. */
  begunBy(i) { return this.found ? this.again[this.stays.first[i]] : 0; }
  get mostMemory() { return Math.max(this.graph.before.peak, this.budget, this.found ? this.peak_memory : 0); }
  get budgetText() {
    return `budget ${bytesText(this.budget)} (${percentText(this.graph.partOfPeak(this.budget), 1)})`;
  }
  get shownStays() { return this.found ? this.stays : this.graph.before.stays; }
  get peakStep() { return this.found ? this.peak_step : this.graph.before.peak_step; }
}
