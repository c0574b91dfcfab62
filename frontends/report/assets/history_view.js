// SPDX-License-Identifier: Apache-2.0
// The schedules found on the way: overhead over seconds, with the lower bound.

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
