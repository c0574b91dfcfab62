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

function showHeadline(place, schedule, unit) {
  const { baseline_duration: base } = schedule;
  const before = schedule.graph.before.peak;
  const figures = [];
  if (schedule.found) {
    figures.push(figure("Peak memory", "peak", `${bytesText(before)} \u2192 ${bytesText(schedule.peak_memory)}`,
      `${percentText(schedule.peak_memory / Math.max(1, before), 1)} of the input order's`));
  } else {
    figures.push(figure("Peak memory", "peak", bytesText(before), "of the input order without recompute"));
  }
  figures.push(figure("Budget", "budget", bytesText(schedule.budget), `${grouped(schedule.budget)} bytes`));
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
  if (schedule.status !== "infeasible") {
    const reached = schedule.solver.reached;
    place.replaceChildren(heading, element("p", {}, "None was found within the limits of the search, and none was " +
      "proved impossible." + (reached > 0 ? ` The smallest peak reached was ${bytesText(reached)} ` +
      `(${grouped(reached)} bytes): a budget of that much is feasible.` : "")));
    return;
  }
  const certificate = schedule.certificate;
  if (!certificate) {
    const computes = schedule.solver.max_computes;
    const limit = computes > 0 ? ` (at most ${plural(computes, "compute")} an op)` : "";
    place.replaceChildren(heading, element("p", {}, `It is proved that no schedule of the stated problem${limit} ` +
      "holds the budget; the proof needs more than one op."));
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
    `${bytesText(certificate.required - schedule.budget)} more than the budget. No recompute changes that.`), table);
}
