// SPDX-License-Identifier: Apache-2.0
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
