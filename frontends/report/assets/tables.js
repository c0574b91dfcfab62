// SPDX-License-Identifier: Apache-2.0
// The numbers that a reader wants first.

const STATUS_WORDS = {
  optimal: "\u2713 optimal",
  feasible: "\u25cb feasible",
  infeasible: "\u2715 infeasible",
  unknown: "? unknown",
};

const STATUS_NOTES = {
  optimal: "no schedule is shorter", feasible: "not proved optimal", infeasible: "proved: there is no schedule",
  unknown: "none found within the limits",
};

function figure(name, id, value, note) {
  return element("div", { class: "figure" }, element("dt", {}, name), element("dd", { id }, value),
    element("dd", { class: "note" }, note));
}

/** The answer in a sentence or two: whether it fits, where the peak is, what is recomputed, what that costs. */
function verdictText(schedule) {
  const before = bytesText(schedule.graph.wholePeak);
  const limit = bytesText(schedule.budget);
  if (schedule.status === "infeasible") return `Does not fit within ${limit}: no schedule does. Without recomputation the peak is ${before}.`;
  if (!schedule.found) return `No schedule within ${limit} is known. Without recomputation the peak is ${before}.`;
  if (schedule.stepCount === 0) return "The graph has no ops.";
  const rows = decodeRows(schedule.recomputed, RECOMPUTED_NUMBERS);
  const least = Math.max(0, schedule.lower_bound / Math.max(1, schedule.baseline_duration) - 1);
  const slices = schedule.graph.slices !== undefined;
  const cost = schedule.status === "optimal" ? `no schedule within the budget${slices ? ", with these slices," : ""} takes less` : `at least ${percentText(least)} is needed`;
  const after = bytesText(schedule.peak_memory);
  const step = schedule.peakStep;
  // None where no op needs more than what is always there.
  const where = step < 0 ? "" : `, at step ${grouped(step)}, ${schedule.stepText(step)}`;
  return `Fits within ${limit}${slices ? ", computed in slices" : ""}: the peak is ${after}` +
    `${after === before ? "" : ` instead of ${before}`}${where}. ` + (rows.length === 0 ? "Nothing is recomputed."
    : `${plural(rows.length, "op")} ${rows.length === 1 ? "is" : "are"} recomputed, for ` +
      `${percentText(schedule.overhead)} more time (${cost}).`);
}

function showHeadline(place, schedule, unit) {
  document.getElementById("verdict").textContent = verdictText(schedule);
  const { baseline_duration: base } = schedule;
  const before = schedule.graph.wholePeak;
  const figures = [];
  if (schedule.found) {
    figures.push(figure("Peak memory", "peak", `${bytesText(before)} \u2192 ${bytesText(schedule.peak_memory)}`,
      schedule.graph.partText(schedule.peak_memory)));
  } else {
    figures.push(figure("Peak memory", "peak", bytesText(before), "of the input order without recompute"));
  }
  figures.push(figure("Budget", "budget", bytesText(schedule.budget),
    `${percentText(schedule.graph.partOfPeak(schedule.budget), 1)}, ${grouped(schedule.budget)} bytes`));
  if (schedule.found) {
    figures.push(figure("Extra time", "overhead", signedPercent(schedule.overhead),
      `${durationText(base, unit)} \u2192 ${durationText(schedule.duration, unit)}`));
  }
  const bound = (schedule.lower_bound - base) / Math.max(1, base);
  if (schedule.status !== "infeasible") {
    figures.push(figure("Lower bound", "bound", signedPercent(bound),
      schedule.found ? `gap ${percentText(schedule.gap)}` : "on any schedule"));
  }
  figures.push(figure("Status", "status", STATUS_WORDS[schedule.status],
    STATUS_NOTES[schedule.status] + (schedule.order === "input" ? ", input order" : ", free order")));
  place.replaceChildren(...figures);
}

/** Why there is no schedule. */
function showRefusal(place, schedule, graph) {
  place.hidden = schedule.found || graph.opCount === 0;
  if (place.hidden) return;
  const heading = element("h2", {}, "Why there is no schedule");
  const reached = schedule.solver.reached;
  const enough = reached > 0 ? ` ${bytesText(reached)} (${grouped(reached)} bytes) is enough.` : "";
  if (schedule.status !== "infeasible") {
    place.replaceChildren(heading, element("p", {}, "None was found within the limits of the search, and none was " +
      `proved impossible.${enough}`));
    return;
  }
  const certificate = schedule.certificate;
  if (!certificate) {
    const computes = schedule.solver.max_computes;
    const limit = computes > 0 ? ` (at most ${plural(computes, "compute")} an op)` : "";
    place.replaceChildren(heading, element("p", {}, `It is proved that no schedule of the stated problem${limit} ` +
      `stays within the budget; the proof needs more than one op.${enough}`));
    return;
  }
  const row = (tensor) => element("tr", {}, element("td", {}, graph.tensors.name[tensor]),
    element("td", { class: "number" }, bytesText(graph.tensors.size[tensor])));
  const rows = [...certificate.tensors].sort((a, b) => graph.tensors.size[b] - graph.tensors.size[a]).map(row);
  const table = element("table", { id: "certificate" },
    element("caption", {}, "Tensors that must be in memory together"),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Tensor"),
      element("th", { scope: "col", class: "number" }, "Size"))), element("tbody", {}, ...rows));
  place.replaceChildren(heading, element("p", {}, `While ${graph.opText(certificate.op)} runs, ` +
    `${bytesText(certificate.required)} (${grouped(certificate.required)} bytes) must be in memory at once: ` +
    `${bytesText(certificate.required - schedule.budget)} more than the budget. No recompute changes that.${enough}`), table);
}

// The tables: what is in memory at a step, and which ops are recomputed.

const RESIDENTS_SHOWN = 24;
const GROUPS_SHOWN = 4;
const ROWS_SHOWN = 30;

class ResidentsTable {
  constructor(cursor) {
    this.caption = document.getElementById("residents-caption");
    this.body = document.querySelector("#residents tbody");
    this.total = document.querySelector("#residents tfoot");
    cursor.listeners.push(() => this.invalidate());
    this.cursor = cursor;
    this.limit = RESIDENTS_SHOWN;
  }

  show(schedule) {
    this.schedule = schedule;
    this.fill();
  }

  invalidate() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.fill();
    });
  }

  amount(size) {
    const words = size < 0 ? "\u2212" + bytesText(-size) : bytesText(size);
    return element("td", { class: "number", title: `${grouped(size)} bytes` }, words);
  }

  row(name, op, size, most) {
    const part = element("div", { class: "part" });
    part.style.width = percentText(Math.max(0, size) / Math.max(1, most), 1).replace(" ", "");
    const title = op ? `${name}, written by ${op}` : typeof name === "string" ? name : "";
    return element("tr", {}, element("td", { class: "name", title }, name, part), this.amount(size));
  }

  /** Shows all tensors from now on. */
  moreButton(words) {
    const button = element("button", { class: "link", type: "button" }, words);
    button.addEventListener("click", () => {
      this.limit = Infinity;
      this.fill();
    });
    return button;
  }

  /** Tensors by the type of the op that writes them, as [words, tensors]; the largest types, and the others together. */
  groupsOf(tensors, sizeOf) {
    const { ops, tensors: { producer } } = this.schedule.graph;
    const groups = new Map();
    for (const t of tensors) {
      const type = (producer[t] >= 0 && ops.types[ops.type[producer[t]]]) || "other ops";
      if (!groups.has(type)) groups.set(type, []);
      groups.get(type).push(t);
    }
    const sorted = [...groups].sort((a, b) => sizeOf(b[1]) - sizeOf(a[1]));
    const others = sorted.slice(GROUPS_SHOWN).flatMap(([, list]) => list);
    const named = sorted.slice(0, GROUPS_SHOWN).map(([type, list]) => [`${plural(list.length, "more output")} of ${type}`, list]);
    return others.length > 0 ? [...named, [`and ${plural(others.length, "more tensor")}`, others]] : named;
  }

  /** The rows' sizes have the memory at the step as their sum, to the byte. */
  fill() {
    const { graph } = this.schedule;
    if (this.schedule.stepCount === 0) return;
    const step = this.cursor.step;
    const op = this.schedule.writerAt(step);
    const stays = this.schedule.shownStays;
    const resident = this.schedule.residents(step);
    const tensors = resident.map((i) => stays.tensor[i]);
    const sizes = new Map(resident.map((i) => [stays.tensor[i], stays.size ? stays.size[i] : graph.tensors.size[stays.tensor[i]]]));
    const sizeOf = (list) => list.reduce((bytes, t) => bytes + sizes.get(t), 0);
    const most = this.schedule.memoryAt(step);
    const rest = tensors.slice(this.limit);
    const workspace = this.schedule.workspaceAt(step);
    const other = most - graph.base - workspace - sizeOf(tensors);
    const groups = this.groupsOf(rest, sizeOf);
    const widest = Math.max(tensors.length > 0 ? sizes.get(tensors[0]) : 0, workspace, other, graph.base,
      ...groups.map(([, list]) => sizeOf(list)));
    const rows = tensors.slice(0, this.limit).map((t) =>
      this.row(graph.tensors.name[t], graph.ops.name[graph.tensors.producer[t]], sizes.get(t), widest));
    rows.push(...groups.map(([words, list]) => this.row(this.moreButton(words), "", sizeOf(list), widest)));
    for (const [name, writer, size] of [["workspace", op, workspace],
      [other > 0 ? "older copies of its outputs" : "taken over in place", op, other],
      ["graph inputs", "", graph.base - graph.fixed], ["fixed memory", "", graph.fixed]]) {
      if (size !== 0) rows.push(this.row(name, writer, size, widest));
    }
    const peak = step === this.schedule.peakStep ? ", the peak" : "";
    this.caption.textContent = `In memory at step ${grouped(step)}${peak}: ${bytesText(most)}`;
    this.body.replaceChildren(...rows);
    this.total.replaceChildren(element("tr", {}, element("th", { scope: "row" }, "Sum"), this.amount(most)));
  }
}

const RECOMPUTED_NUMBERS = ["op", "times", "paid", "saved", "steps", "worst", "above", "keptSteps", "keptWorst", "keptAbove"];

/** What the lead above the table explains once. */
function reasonWords(graph, row) {
  if (row.steps > 0) return `${bytesText(row.above)} at ${graph.ops.name[row.worst]}`;
  if (row.keptSteps > 0) return `if kept: ${bytesText(row.keptAbove)} at ${graph.ops.name[row.keptWorst]}`;
  return row.saved > 0 ? "no overload: it would have fitted" : "nothing: its outputs were still in memory";
}

class RecomputedTable {
  constructor(unit, onChoice) {
    this.table = document.getElementById("recomputed");
    this.body = this.table.querySelector("tbody");
    this.more = document.getElementById("recomputed-more");
    this.summary = document.getElementById("recomputed-summary");
    this.unit = unit;
    this.onChoice = onChoice;
    this.order = { key: "paid", down: true };
    for (const button of this.table.querySelectorAll("th button")) {
      button.addEventListener("click", () => this.sort(button.dataset.key));
    }
    this.more.addEventListener("click", () => {
      this.limit = Infinity;
      this.fill();
    });
  }

  show(schedule) {
    this.graph = schedule.graph;
    this.rows = decodeRows(schedule.recomputed, RECOMPUTED_NUMBERS);
    this.limit = ROWS_SHOWN;
    const times = this.rows.reduce((sum, row) => sum + row.times, 0);
    const paid = this.rows.reduce((sum, row) => sum + row.paid, 0);
    this.summary.textContent = this.rows.length === 0 ? "Nothing is recomputed."
      : `${plural(this.rows.length, "op")}, ${plural(times, "recompute")}, ${durationText(paid, this.unit)} paid. ` +
        "The name of an op shows it among the retention intervals. Relieves: by how much the input order exceeds the " +
        "budget at its worst while the outputs are away, and at how many steps; if kept: by how much this schedule would.";
    this.table.hidden = this.rows.length === 0;
    this.fill();
  }

  sort(key) {
    const words = key === "name" || key === "type";
    this.order = { key, down: this.order.key === key ? !this.order.down : !words };
    this.fill();
  }

  valueOf(row) {
    const { key } = this.order;
    if (key === "name") return this.graph.ops.name[row.op];
    if (key === "type") return this.graph.ops.types[this.graph.ops.type[row.op]];
    if (key === "steps") return row.steps || row.keptSteps;
    return key === "reason" ? (row.steps > 0 ? row.above : row.keptAbove) : row[key];
  }

  compare(a, b) {
    const [x, y] = [this.valueOf(a), this.valueOf(b)];
    const sign = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (this.order.down ? -sign : sign) || a.op - b.op;
  }

  fill() {
    const rows = [...this.rows].sort((a, b) => this.compare(a, b));
    const shown = rows.slice(0, this.limit);
    const reasons = shown.map((row) => reasonWords(this.graph, row));
    this.body.replaceChildren(...shown.map((row, i) => this.rowOf(row, reasons[i], i > 0 && reasons[i] === reasons[i - 1])));
    this.more.hidden = rows.length <= this.limit;
    this.more.textContent = `Show all ${grouped(rows.length)}`;
    for (const button of this.table.querySelectorAll("th button")) {
      const chosen = button.dataset.key === this.order.key;
      button.parentElement.setAttribute("aria-sort", chosen ? (this.order.down ? "descending" : "ascending") : "none");
    }
  }

  /** `same`: as the row above, which is not said again. */
  rowOf(row, reason, same) {
    const name = element("button", { class: "link", type: "button" }, this.graph.ops.name[row.op]);
    name.addEventListener("click", () => this.onChoice(row.op));
    return element("tr", {}, element("th", { scope: "row", class: "name" }, name),
      element("td", {}, this.graph.ops.types[this.graph.ops.type[row.op]]),
      element("td", { class: "number" }, grouped(row.times)),
      element("td", { class: "number" }, durationText(row.paid, this.unit)),
      element("td", { class: "number" }, bytesText(row.saved)),
      element("td", { class: "number" }, grouped(row.steps || row.keptSteps)),
      element("td", { class: same ? "reason same" : "reason", title: reason }, same ? "the same" : reason));
  }
}
