// SPDX-License-Identifier: Apache-2.0
// Small charts as SVG elements, drawn anew when their place changes its width. Colours come from the style sheet.

const SVG = "http://www.w3.org/2000/svg";

class SvgChart {
  constructor(host, label) {
    this.host = host;
    this.label = label;
    this.margins = { left: 62, right: 16, top: 26, bottom: 40 };
    /** Between the axis upwards and where the one across begins. */
    this.indent = 0;
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
    const begin = left + this.indent;
    this.toX = (value) => begin + (along(value) - first) / (last - first || 1) * (this.width - begin - right);
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

/** Pixels of the band of fixed memory. */
const CURVE_BAND = 20;

/** Finds places for words of 12 pixels, as report::Labels does for exported figures (frontends/report/plot.hpp). */
class Labels {
  constructor(left, top, right, bottom) {
    this.within = [left, top, right, bottom];
    this.taken = [];
  }

  avoid(...box) { this.taken.push(box); }

  /** Where the words begin, and their line: the first place around the point that is free, nearer ones first. */
  place(words, x, y) {
    const width = 6.4 * words.length;
    const [left, top, right, bottom] = this.within;
    let best = null;
    for (const away of [0, 14, 28, 42]) {
      for (const first of [x + 8, x - 8 - width, x - width / 2]) {
        for (const last of [y - 8 - away, y + 20 + away]) {
          const box = [first, last - 14, first + width, last];
          const inside = box[0] >= left && box[1] >= top && box[2] <= right && box[3] <= bottom;
          const met = this.taken.filter((o) => box[0] < o[2] && o[0] < box[2] && box[1] < o[3] && o[1] < box[3]).length;
          const cost = met + (inside ? 0 : 2);
          if (best === null || cost < best.cost) best = { cost, box };
        }
      }
    }
    this.taken.push(best.box);
    return [best.box[0], best.box[3] - 3];
  }
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
    const { points, fixed, least_budget: least, baseline_peak_memory: peak } = this.curve;
    const budgets = points.map((point) => point.budget).concat(least > 0 ? [least] : []);
    const from = Math.min(...budgets);
    const to = Math.max(...budgets);
    const margin = 0.04 * (to - from) || 1;
    const highest = (point) => point.overhead ?? (point.status === "infeasible" ? 0 : point.bound);
    const most = points.reduce((max, point) => Math.max(max, highest(point)), 0) || 0.01;
    this.indent = fixed > 0 ? CURVE_BAND + 8 : 0;
    this.scale([from - margin, to + margin], [0, 1.1 * most]);
    const unit = 1024 ** byteUnit(to - fixed);
    const ticks = roundTicks((from - margin - fixed) / unit, (to + margin - fixed) / unit, this.width / 110);
    const above = fixed > 0 ? "budget above fixed memory" : "budget";
    this.drawAxes(ticks.map((tick) => fixed + tick * unit), roundTicks(0, 1.1 * most * 100, 5).map((tick) => tick / 100),
      (value) => `${tickText((value - fixed) / unit)} ${BYTE_UNITS[byteUnit(to - fixed)]}`,
      (value) => tickText(100 * value) + " %", `${above} (peak without recompute: ${bytesText(peak - fixed)})`, "overhead");
    this.labels = new Labels(this.margins.left + this.indent, this.margins.top - 14, this.width, this.height - this.margins.bottom);
    if (fixed > 0) this.drawFixed(fixed);
    if (least > 0) this.drawLeast(least);
    const known = points.filter((point) => point.overhead !== null);
    this.stairs(known.map((point) => [point.budget, point.overhead]), "known");
    known.forEach((point, i) => {
      if (i === 0) return;
      const [x, y] = [this.toX(known[i - 1].budget), this.toY(known[i - 1].overhead)];
      const [right, bottom] = [this.toX(point.budget), this.toY(point.overhead)];
      this.labels.avoid(x, y - 2, right, y + 2);
      this.labels.avoid(right - 2, y, right + 2, bottom);
    });
    this.drawBound(points.filter((point) => point.status !== "infeasible"));
    points.forEach((point, i) => { if (point.overhead !== null) this.drawPoint(point, i); });
    this.drawNames(least, 1.1 * most);
  }

  /** What the axis does not count: a band beside it, not to scale. */
  drawFixed(fixed) {
    const { left, top, bottom } = this.margins;
    this.add("rect", { class: "band", x: left, y: top, width: CURVE_BAND, height: this.height - top - bottom });
    this.add("text", { class: "tick", transform: `translate(${left + CURVE_BAND - 6} ${this.height - bottom - 8}) rotate(-90)` })
      .textContent = "fixed " + bytesText(fixed);
  }

  drawLeast(least) {
    const x = this.toX(least);
    this.add("path", { class: "minimum", d: `M${x} ${this.margins.top}V${this.height - this.margins.bottom}` });
    this.labels.avoid(x - 3, this.margins.top, x + 3, this.height - this.margins.bottom);
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
    this.labels.avoid(x - 7, y - 7, x + 7, y + 7);
  }

  /** After all that they stand aside of. */
  drawNames(least, top) {
    const { points, knee, smallest } = this.curve;
    const name = (words, budget, overhead) => {
      const [x, y] = this.labels.place(words, this.toX(budget), this.toY(overhead));
      this.text(words, x, y, "start", "name");
    };
    const both = knee >= 0 && knee === smallest;
    if (smallest >= 0) {
      name(both ? "knee, smallest feasible" : "smallest feasible", points[smallest].budget, points[smallest].overhead);
    }
    if (knee >= 0 && !both) name("knee", points[knee].budget, points[knee].overhead);
    if (least > 0) name("none below (proved)", least, top);
  }
}

/** The points as a table, their schedules as links. */
function fillCurveTable(body, curve) {
  const cell = (words) => element("td", { class: "number" }, words);
  const row = (point, i) => {
    const shown = point.schedule >= 0 ? element("a", { href: "#point-" + i }, "show") : point.why;
    const isLeast = point.overhead !== null && point.budget === curve.least_budget;
    const note = [i === curve.knee ? "knee" : "", i === curve.smallest ? "smallest feasible" : "",
      isLeast ? "the least budget" : ""].filter(Boolean);
    return element("tr", { id: "row-point-" + i }, cell(bytesText(point.budget)), cell(percentText(point.part, 1)),
      element("td", {}, point.status), cell(point.overhead === null ? "\u2013" : signedPercent(point.overhead)),
      cell(point.status === "infeasible" ? "\u2013" : signedPercent(point.bound)),
      cell(point.peak === null ? "\u2013" : bytesText(point.peak)), element("td", {}, note.join(", ")),
      element("td", {}, shown));
  };
  // A few bytes below a budget that holds, where a reader sees the same amount: one row says both.
  const isJustBelow = (point, i) => point.overhead === null && i + 1 < curve.points.length &&
    curve.points[i + 1].budget - point.budget <= Math.max(1, curve.points[i + 1].budget / 10000);
  body.replaceChildren(...curve.points.map((point, i) => [point, row(point, i)])
    .filter(([point], i) => !isJustBelow(point, i)).map(([, made]) => made));
}
