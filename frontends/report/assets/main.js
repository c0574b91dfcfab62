// SPDX-License-Identifier: Apache-2.0
// Puts the page together, and changes its schedule when a point of a sweep is chosen.

class Report {
  constructor() {
    this.graph = new GraphData(readBlock("graph-data"));
    this.loaded = new Map();
    this.theme = new Theme();
    this.cursor = new Cursor();
    this.steps = new VisibleRange(1);
    this.ops = new VisibleRange(1);
    this.stages = new VisibleRange(1);
    this.memory = new MemoryView(this.theme, this.steps, this.cursor);
    this.gantt = new GanttView(this.theme, this.steps, this.cursor);
    this.arena = new ArenaView(this.theme, this.steps, this.cursor);
    this.lanes = new LanesView(this.theme, this.cursor);
    this.computed = new MatrixView("matrix-r", this.theme, this.ops, this.stages);
    this.retained = new MatrixView("matrix-s", this.theme, this.ops, this.stages);
    this.residents = new ResidentsTable(this.cursor);
    this.recomputed = new RecomputedTable(this.graph.unit, (op) => this.gantt.showOp(op));
    this.history = new HistoryChart(document.getElementById("history-chart"));
    this.openCurve();
    const open = () => this.follow() || this.show(this.graph.first);
    window.addEventListener("hashchange", open);
    open();
  }

  openCurve() {
    const { curve } = this.graph;
    if (!curve) return;
    document.getElementById("sweep").hidden = false;
    this.chart = new CurveChart(document.getElementById("curve-chart"), curve);
    fillCurveTable(document.querySelector("#curve-table tbody"), curve);
  }

  /** Shows the point that the address names; false if it names none. */
  follow() {
    const match = /^#point-(\d+)$/.exec(location.hash);
    const point = match && this.graph.curve ? this.graph.curve.points[Number(match[1])] : undefined;
    if (!point || point.schedule < 0) return false;
    this.show(point.schedule, Number(match[1]));
    return true;
  }

  schedule(number) {
    if (!this.loaded.has(number)) {
      const Data = this.graph.devices ? DeviceScheduleData : ScheduleData;
      this.loaded.set(number, new Data(readBlock("schedule-data-" + number), this.graph));
    }
    return this.loaded.get(number);
  }

  show(number, point) {
    const { curve } = this.graph;
    if (curve) this.showPoint(point ?? curve.points.findIndex((p) => p.schedule === number));
    document.getElementById("schedule").hidden = number < 0;
    if (number < 0) return;
    const schedule = this.schedule(number);
    this.current = schedule;
    if (this.graph.devices) {
      this.showDevices(schedule);
      return;
    }
    showHeadline(document.getElementById("headline"), schedule, this.graph.unit);
    showRefusal(document.getElementById("refusal"), schedule, this.graph);
    this.steps.resize(schedule.stepCount);
    this.cursor.step = Math.max(0, schedule.peakStep);
    document.getElementById("drawings").hidden = schedule.stepCount === 0;
    if (schedule.stepCount > 0) for (const view of [this.memory, this.gantt, this.residents]) view.show(schedule);
    document.getElementById("arena").hidden = !schedule.arena;
    if (schedule.arena) this.arena.show(schedule);
    this.showMatrices(schedule);
    document.getElementById("recomputed-section").hidden = !schedule.found;
    this.recomputed.show(schedule);
    this.showHistory(schedule);
    showSolver(schedule, this.graph);
  }

  showDevices(schedule) {
    document.body.classList.add("devices");
    showDeviceHeadline(document.getElementById("headline"), schedule);
    showDeviceRefusal(document.getElementById("refusal"), schedule);
    for (const id of ["arena", "matrices", "recomputed-section", "history"]) document.getElementById(id).hidden = true;
    for (const id of ["drawings", "lanes", "device-tables"]) document.getElementById(id).hidden = !schedule.found;
    showSolver(schedule, this.graph);
    if (!schedule.found) return;
    this.steps.resize(schedule.stepCount);
    const tight = Math.max(0, schedule.parts.findIndex((part) => part.budget !== null));
    this.cursor.step = Math.max(0, schedule.parts[tight].peakStep);
    this.lanes.show(schedule);
    fillDeviceTables(schedule);
    const buttons = schedule.parts.map((part, device) => {
      const button = element("button", { type: "button" }, schedule.deviceName(device));
      button.addEventListener("click", () => this.showDevice(device));
      return button;
    });
    document.querySelector("#device-choice .tools").replaceChildren(...buttons);
    document.getElementById("device-choice").hidden = false;
    this.showDevice(tight);
  }

  /** Memory, intervals and residents of one device. */
  showDevice(device) {
    const name = this.graph.devices.name[device];
    document.querySelectorAll("#device-choice button").forEach((button, i) =>
      button.setAttribute("aria-pressed", String(i === device)));
    document.getElementById("memory-title").textContent = `Memory of ${name}`;
    document.getElementById("gantt-title").textContent = `Retention intervals on ${name}`;
    for (const view of [this.memory, this.gantt, this.residents]) view.show(this.current.parts[device]);
  }

  showPoint(i) {
    this.chart.select(i);
    const words = i < 0 ? "" : "The schedule of " + pointWords(this.graph.curve, i);
    document.getElementById("point-name").textContent = words;
    for (const row of document.querySelectorAll("#curve-table tbody tr")) {
      if (row.id === "row-point-" + i) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  showMatrices(schedule) {
    const staged = schedule.found && schedule.order === "input";
    document.getElementById("matrices").hidden = !staged;
    if (!staged) return;
    this.ops.resize(this.graph.opCount);
    this.stages.resize(this.graph.opCount + 1);
    const { stage, again, retained } = schedule;
    const computes = schedule.steps.flatMap((op, step) => [op, stage[step], stage[step], again[step]]);
    this.computed.show(schedule, computes, (state) => ["not computed", "first computed", "recomputed"][state]);
    const runs = [];
    for (let i = 0; i < retained.length; i += 3) runs.push(retained[i], retained[i + 1], retained[i + 2], 0);
    this.retained.show(schedule, runs, (state) => ["not retained", "retained from the stage before"][state]);
  }

  showHistory(schedule) {
    const any = schedule.history.length > 0;
    document.getElementById("history").hidden = !any;
    if (!any) return;
    this.history.show(schedule);
    fillHistoryTable(document.querySelector("#history-table tbody"), schedule, this.graph.unit);
  }
}

function showPairs(place, pairs) {
  place.replaceChildren(...pairs.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function showSolver(schedule, graph) {
  const { pairs, options } = schedule.solver;
  const size = `${plural(graph.opCount, "op")}, ${plural(graph.tensors.name.length, "tensor")}`;
  showPairs(document.getElementById("solver"), [["Graph", size], ...pairs]);
  document.getElementById("options").hidden = options.length === 0;
  showPairs(document.querySelector("#options dl"), options);
}

const report = new Report();
// For scripts and tests.
window.remoraReport = report;
