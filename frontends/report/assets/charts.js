// SPDX-License-Identifier: Apache-2.0
// Small charts as SVG elements, drawn anew when their place changes its width. Colours come from the style sheet.

const SVG = "http://www.w3.org/2000/svg";

class SvgChart {
  constructor(host, label) {
    this.host = host;
    this.label = label;
    this.margins = { left: 62, right: 16, top: 26, bottom: 40 };
    this.height = 260;
    new ResizeObserver(() => this.render()).observe(host);
  }

  render() {
    const width = this.host.clientWidth;
    if (width === 0 || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  redraw() {
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("aria-label", this.label);
    this.svg.setAttribute("role", "group");
    this.draw();
    this.host.replaceChildren(this.svg);
  }

  add(name, attributes, parent = this.svg) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  }

  text(words, x, y, anchor, style = "tick") {
    this.add("text", { x, y, "text-anchor": anchor, class: style }).textContent = words;
  }

  /** Sets the scales: `across` and `up` are [least, most]; a logarithmic axis across where `logarithmic`. */
  scale(across, up, logarithmic = false) {
    const { left, right, top, bottom } = this.margins;
    const along = logarithmic ? Math.log10 : (value) => value;
    const [first, last] = across.map(along);
    this.toX = (value) => left + (along(value) - first) / (last - first || 1) * (this.width - left - right);
    this.toY = (value) => this.height - bottom - (value - up[0]) / (up[1] - up[0] || 1) * (this.height - top - bottom);
  }

  drawAxes(xTicks, yTicks, xText, yText, xLabel, yLabel) {
    const { left, right, top, bottom } = this.margins;
    for (const tick of yTicks) {
      this.add("path", { class: "grid", d: `M${left} ${this.toY(tick)}H${this.width - right}` });
      this.text(yText(tick), left - 8, this.toY(tick) + 4, "end");
    }
    for (const tick of xTicks) {
      const x = this.toX(tick);
      this.add("path", { class: "axis", d: `M${x} ${this.height - bottom}v4` });
      this.text(xText(tick), x, this.height - bottom + 17, "middle");
    }
    this.add("path", { class: "axis", d: `M${left} ${top}V${this.height - bottom}H${this.width - right}` });
    this.text(xLabel, this.width - right, this.height - 6, "end");
    this.text(yLabel, 0, 10, "start");
  }

  /** A path that holds each value until the next point. */
  stairs(points, style) {
    const path = points.map(([x, y], i) => (i === 0 ? `M${this.toX(x)} ` : `H${this.toX(x)}V`) + this.toY(y));
    if (path.length > 0) this.add("path", { class: style, d: path.join("") });
  }
}

// Search progress: overhead over seconds, with the lower bound.

class HistoryChart extends SvgChart {
  constructor(host) { super(host, "Overhead of the schedules found, over seconds"); }

  show(schedule) {
    this.schedule = schedule;
    if (this.width) this.redraw();
    else this.render();
  }

  draw() {
    const { history, baseline_duration: baseline } = this.schedule;
    const over = (duration) => 100 * (duration - baseline) / Math.max(1, baseline);
    const bound = over(this.schedule.lower_bound);
    const seconds = history.map((entry) => Math.max(entry[0], 1e-3));
    const end = Math.max(this.schedule.solver.seconds || 0, ...seconds.slice(-1), 2e-3);
    const first = Math.min(...seconds);
    const logarithmic = end / first > 50;
    const highest = history.reduce((most, entry) => Math.max(most, over(entry[1])), bound);
    const most = highest > 0 ? 1.08 * highest : 1;
    this.scale([logarithmic ? first : 0, end], [0, most], logarithmic);
    const decades = [];
    for (let power = -3; logarithmic && 10 ** power <= end; ++power) {
      if (10 ** power >= first) decades.push(10 ** power);
    }
    this.drawAxes(logarithmic ? decades : roundTicks(0, end, this.width / 110), roundTicks(0, most, 4), tickText,
      (value) => tickText(value) + " %", logarithmic ? "seconds (logarithmic)" : "seconds", "overhead");
    const { left, right } = this.margins;
    this.add("path", { class: "bound", d: `M${left} ${this.toY(bound)}H${this.width - right}` });
    const points = history.map((entry, i) => [seconds[i], over(entry[1])]);
    const fits = history.map((entry) => entry[2] <= this.schedule.budget);
    const known = points.filter((_, i) => fits[i]);
    this.stairs([...known, ...known.slice(-1).map(([, last]) => [end, last])], "known");
    history.forEach((entry, i) => {
      const mark = this.add("circle", { class: fits[i] ? "mark" : "mark hollow", cx: this.toX(seconds[i]),
        cy: this.toY(points[i][1]), r: history.length > 200 ? 2 : 3.5 });
      this.add("title", {}, mark).textContent = `${tickText(entry[0])} s: ${signedPercent(points[i][1] / 100, 3)}, ` +
        `peak ${bytesText(entry[2])}, found by ${entry[3]}`;
    });
  }
}

function fillHistoryTable(body, schedule, unit) {
  const cell = (words) => element("td", { class: "number" }, words);
  const baseline = Math.max(1, schedule.baseline_duration);
  const row = ([seconds, duration, peak, source]) => element("tr", {}, cell(seconds.toFixed(3)),
    cell(signedPercent((duration - baseline) / baseline, 3)), cell(durationText(duration, unit)), cell(bytesText(peak)),
    element("td", {}, source));
  body.replaceChildren(...schedule.history.map(row));
}

// A sweep: overhead against budget. Each point is a link that shows its schedule in this page.

function pointWords(curve, i) {
  const point = curve.points[i];
  const marks = [];
  if (curve.knee === i) marks.push("knee");
  if (curve.smallest === i) marks.push("smallest feasible budget");
  const overhead = point.overhead === null ? "no schedule" : signedPercent(point.overhead);
  return `${bytesText(point.budget)}: ${overhead}, ${point.status}${marks.length > 0 ? ", " + marks.join(", ") : ""}`;
}

class CurveChart extends SvgChart {
  constructor(host, curve) {
    super(host, "Overhead against budget");
    this.curve = curve;
    this.height = 300;
    this.selected = -1;
  }

  select(i) {
    this.selected = i;
    if (!this.width) return;
    const focused = this.host.contains(document.activeElement);
    this.redraw();
    if (focused) this.svg.querySelector("[aria-current]")?.focus();
  }

  draw() {
    const { points, least_budget: least, baseline_peak_memory: peak } = this.curve;
    const budgets = points.map((point) => point.budget).concat(least > 0 ? [least] : []);
    const from = Math.min(...budgets);
    const to = Math.max(...budgets);
    const margin = 0.04 * (to - from) || 1;
    const highest = (point) => point.overhead ?? (point.status === "infeasible" ? 0 : point.bound);
    const most = points.reduce((max, point) => Math.max(max, highest(point)), 0) || 0.01;
    this.scale([from - margin, to + margin], [0, 1.1 * most]);
    const unit = 1024 ** byteUnit(to);
    const ticks = roundTicks((from - margin) / unit, (to + margin) / unit, this.width / 110);
    this.drawAxes(ticks.map((tick) => tick * unit), roundTicks(0, 1.1 * most * 100, 5).map((tick) => tick / 100),
      (value) => `${tickText(value / unit)} ${BYTE_UNITS[byteUnit(to)]}`, (value) => tickText(100 * value) + " %",
      `budget (peak without recompute: ${bytesText(peak)})`, "overhead");
    if (least > 0) this.drawLeast(least);
    const known = points.filter((point) => point.overhead !== null);
    this.stairs(known.map((point) => [point.budget, point.overhead]), "known");
    this.drawBound(points.filter((point) => point.status !== "infeasible"));
    points.forEach((point, i) => { if (point.overhead !== null) this.drawPoint(point, i); });
  }

  drawLeast(least) {
    const x = this.toX(least);
    this.add("path", { class: "least", d: `M${x} ${this.margins.top}V${this.height - this.margins.bottom}` });
    this.text("none below (proved)", x + 5, this.margins.top + 12, "start");
  }

  /** The bound of a budget holds for all smaller ones: stairs to the left. */
  drawBound(points) {
    const path = points.map((point, i) => (i === 0 ? `M${this.toX(point.budget)} ${this.toY(point.bound)}`
      : `V${this.toY(point.bound)}H${this.toX(point.budget)}`));
    if (path.length > 0) this.add("path", { class: "bound", d: path.join("") });
  }

  drawPoint(point, i) {
    const x = this.toX(point.budget);
    const y = this.toY(point.overhead);
    const link = point.schedule >= 0
      ? this.add("a", { href: "#point-" + i, "aria-label": pointWords(this.curve, i) }) : this.add("g", {});
    if (i === this.selected) link.setAttribute("aria-current", "true");
    this.add("title", {}, link).textContent = pointWords(this.curve, i);
    this.add("circle", { class: "target", cx: x, cy: y, r: 12 }, link);
    if (i === this.selected) this.add("circle", { class: "chosen", cx: x, cy: y, r: 9 }, link);
    this.add("circle", { class: point.status === "optimal" ? "mark" : "mark hollow", cx: x, cy: y, r: 4.5 }, link);
    if (i === this.curve.knee) this.drawName("knee", x, y, -10, link);
    if (i === this.curve.smallest) this.drawName("smallest feasible", x, y, -12, link);
  }

  drawName(words, x, y, down, parent) {
    const right = x > this.width - 150;
    const place = { class: "tick", x: x + (right ? -8 : 8), y: y + down, "text-anchor": right ? "end" : "start" };
    this.add("text", place, parent).textContent = words;
  }
}

/** The points as a table, their schedules as links. */
function fillCurveTable(body, curve) {
  const cell = (words) => element("td", { class: "number" }, words);
  const row = (point, i) => {
    const shown = point.schedule >= 0 ? element("a", { href: "#point-" + i }, "show") : point.why;
    const note = [i === curve.knee ? "knee" : "", i === curve.smallest ? "smallest feasible" : ""].filter(Boolean);
    return element("tr", { id: "row-point-" + i }, cell(bytesText(point.budget)), cell(percentText(point.part, 1)),
      element("td", {}, point.status), cell(point.overhead === null ? "\u2013" : signedPercent(point.overhead)),
      cell(point.status === "infeasible" ? "\u2013" : signedPercent(point.bound)),
      cell(point.peak === null ? "\u2013" : bytesText(point.peak)), element("td", {}, note.join(", ")),
      element("td", {}, shown));
  };
  body.replaceChildren(...curve.points.map(row));
}
