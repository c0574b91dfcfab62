# SPDX-License-Identifier: Apache-2.0
"""Results side by side: a row for every instance and budget, a cell for every contender, medians over seeds; and the page
that shows them."""
import dataclasses
import math
import re

from harness.results import percent_more

USUAL_COMPUTES = 2  # of the problem that best known values are told for
SAME = 5e-5  # overheads (per cent) that differ by less are the same


@dataclasses.dataclass
class Cell:
    """Of one contender on one instance and budget. Medians are the upper one of two; no schedule is worse than any, so
    that there is a median overhead if more than half of the runs have one."""
    runs: int = 0
    schedules: int = 0
    proved: int = 0
    infeasible: int = 0
    failed: int = 0
    overhead: float | None = None
    least: float | None = None  # of the overheads
    most: float | None = None  # None where a run has no schedule
    reached: float = 0.0  # seconds to the last improvement of the runs with a schedule
    seconds: float = 0.0
    progress: list = dataclasses.field(default_factory=list)  # of the best run: (seconds, overhead), also at its end
    statistics: dict = dataclasses.field(default_factory=dict)  # of the first run that tells some


@dataclasses.dataclass
class Row:
    instance: str
    budget: str
    graph_sha256: str
    ops: int
    edges: int
    time_limit: float
    cells: list = dataclasses.field(default_factory=list)  # by contender, as in the suite
    bound: float | None = None  # the best one of the first contender's problem
    best: float | None = None  # of the cells' overheads


def median(values):
    return sorted(values)[len(values) // 2] if values else 0.0


def progress_of(run):
    points = [(seconds, percent_more(duration, run.baseline_duration)) for seconds, duration in run.history]
    return points + [(max(run.seconds, run.reached), run.overhead())]


def cell_of(runs):
    found = [run for run in runs if run.has_schedule()]
    count = lambda status: sum(run.status == status for run in runs)
    cell = Cell(len(runs), len(found), count("optimal"), count("infeasible"), count("failed"))
    overheads = sorted(run.overhead() for run in found)
    if overheads:
        cell.least = overheads[0]
        cell.most = overheads[-1] if len(found) == len(runs) else None
    if len(runs) // 2 < len(overheads):
        cell.overhead = overheads[len(runs) // 2]
    cell.reached, cell.seconds = median([run.reached for run in found]), median([run.seconds for run in runs])
    if found:
        cell.progress = progress_of(min(found, key=lambda run: run.duration))
    cell.statistics = next((run.statistics for run in runs if run.statistics), {})
    return cell


def problem_of(run):
    return run.order, run.max_computes


def row_of(suite, results):
    any_run = results[0]
    row = Row(any_run.instance, any_run.budget, any_run.graph_sha256, any_run.ops, any_run.edges, any_run.time_limit)
    answers = [run for run in results if run.status != "failed"]
    first = next((run for run in answers if run.contender == suite.contenders[0].name), None)
    row.cells = [cell_of([run for run in results if run.contender == contender.name]) for contender in suite.contenders]
    row.best = min((cell.overhead for cell in row.cells if cell.overhead is not None), default=None)
    if first:
        row.bound = max(run.bound() for run in answers if problem_of(run) == problem_of(first))
    return row


def compare(suite, results):
    """Rows in the order of the results."""
    groups = {}
    for result in results:
        groups.setdefault((result.instance, result.budget), []).append(result)
    return [row_of(suite, group) for group in groups.values()]


def contradictions(results):
    """Where one contender's proof and another's schedule of the same problem exclude each other: a line each. Something is
    wrong then."""
    problems = {}
    for run in results:
        if run.status != "failed":
            problems.setdefault((run.instance, run.budget, *problem_of(run)), []).append(run)
    lines = []
    for (instance, budget, *_), runs in problems.items():
        for proof in runs:
            for schedule in runs:
                if schedule.has_schedule() and (proof.status == "infeasible" or proof.lower_bound > schedule.duration):
                    says = "calls it infeasible" if proof.status == "infeasible" else "has a bound above"
                    lines.append(f"{instance} {budget}: {proof.contender} {says}, {schedule.contender} has a schedule")
    return lines


def is_best(cell, row):
    return cell.overhead is not None and cell.overhead <= row.best + SAME


def cell_text(cell, row):
    """"**2.2965**\\* in 1.2 s": bold the row's best, starred what is proved in every run."""
    if cell.runs == 0:
        return "–"
    if cell.failed:
        return "failed"
    if cell.infeasible == cell.runs:
        return "infeasible*"
    if cell.overhead is None:
        return "none"
    mark = "**" if is_best(cell, row) else ""
    text = f"{mark}{cell.overhead:.4f}{mark}" + ("\\*" if cell.proved == cell.runs else "")
    if cell.most is not None and cell.most > cell.least + SAME:
        text += f" ({cell.least:.4f} to {cell.most:.4f})"
    text += f" in {cell.reached:.{2 if cell.reached < 10 else 0}f} s"
    return text + (f", {cell.schedules}/{cell.runs}" if cell.schedules < cell.runs else "")


def best_known_text(best_known, row):
    entry = best_known.find(row.instance, row.graph_sha256, row.budget, USUAL_COMPUTES)
    if entry is None:
        return ""
    star = "\\*" if entry["duration"] == entry["lower_bound"] else ""
    return f"{percent_more(entry['duration'], entry['baseline_duration']):.4f}{star}"


def reference_text(reference):
    return (f"{reference.overhead:g} at {reference.relative_peak:g} % in {reference.minutes:g} min ({reference.name})"
            if reference else "")


def table(head, rows):
    line = lambda cells: "|" + "".join(f" {cell} |" for cell in cells) + "\n"
    return line(head) + "|" + "---|" * len(head) + "\n" + "".join(line(row) for row in rows)


def results_table(suite, rows, best_known):
    limits = {instance.time_limit or suite.time_limit for instance in suite.instances}
    references = {instance.name: instance.reference for instance in suite.instances if instance.reference}
    text = ("\nOverhead in per cent (median over seeds) and when it was reached, by the contender's own clock. Bold: the best "
            "of the row; \\*: proved in\nevery run, for the problem that the contender solves. *Bound* is the best one of "
            "the first contender's problem.\n")
    if any(cell.runs > 1 for row in rows for cell in row.cells):
        text += "In brackets: the best and the worst seed, where they differ.\n"
    if references:
        text += ("*Reference*: overhead in per cent (predicted, as ours), peak in per cent of that without recompute and "
                 "minutes to solve, as published.\nFor orientation only: other graphs' granularity, GPU, PyTorch's peak; our "
                 "budgets are in per cent of what is above fixed memory.\n")
    head = ["instance", "ops", "edges", "budget", *(["limit"] if len(limits) > 1 else []),
            *(contender.name for contender in suite.contenders), "bound", "best known", *(["reference"] if references else [])]
    lines = []
    for row in rows:
        has_bound = row.bound is not None and row.best is not None
        lines.append([row.instance, row.ops, row.edges, row.budget,
                      *([f"{row.time_limit:g} s"] if len(limits) > 1 else []), *(cell_text(cell, row) for cell in row.cells),
                      f"{row.bound:.4f}" if has_bound else "", best_known_text(best_known, row),
                      *([reference_text(references.get(row.instance))] if references else [])])
    return text + "\n" + table(head, lines)


def seeds_apart(cell):
    """How much the worst seed is above the best: of the durations and of the overheads, in per cent."""
    if cell.most is None:
        return math.inf, math.inf
    over = 100 * (cell.most / cell.least - 1) if cell.least > 0 else 0.0 if cell.most <= SAME else math.inf
    return 100 * ((100 + cell.most) / (100 + cell.least) - 1), over


def summary_table(suite, rows):
    has_seeds = any(cell.runs > 1 for row in rows for cell in row.cells)
    lines = []
    for i, contender in enumerate(suite.contenders):
        asked = [row for row in rows if row.cells[i].runs > 0]
        cells = [row.cells[i] for row in asked]
        apart = [seeds_apart(cell) for cell in cells if cell.infeasible < cell.runs]
        lines.append([contender.name, len(asked), sum(cell.overhead is not None for cell in cells),
                      sum(cell.proved + cell.infeasible == cell.runs for cell in cells),
                      sum(is_best(row.cells[i], row) for row in asked),
                      f"{sum(cell.seconds for cell in cells) / max(1, len(cells)):.1f}",
                      *([sum(duration <= 1 for duration, _ in apart), sum(over <= 1 for _, over in apart)] if has_seeds else [])])
    head = ["contender", "rows", "with a schedule", "proved", "best of the row", "seconds a run, mean"]
    return table(head + (["seeds within 1 % in duration", "in overhead"] if has_seeds else []), lines)


def ends_without_reason(run):
    """Whether the search says that it has nothing more to try, with neither a proof nor its limit. Methods of the
    literature and other programs, whose command begins with a name, end once they have their answer."""
    strategy = re.search(r"--strategy (\S+)|^[^-]", run.asked)
    searches = strategy is None or strategy[1] in ("auto", "cp")
    return searches and run.stopped == "exhausted" and run.status in ("feasible", "unknown")


def seeds_text(suite, results):
    """Of each contender: in how many rows all seeds end with the same status; and the runs that end without a reason."""
    lines, text = [], ""
    for contender in suite.contenders:
        statuses = {}
        for run in results:
            if run.contender == contender.name:
                statuses.setdefault((run.instance, run.budget), []).append(run.status)
        several = [found for found in statuses.values() if len(found) > 1]
        same = sum(len(set(found)) == 1 for found in several)
        early = [run for run in results if run.contender == contender.name and ends_without_reason(run)]
        if several:
            lines.append([contender.name, len(several), same, f"{100 * same / len(several):.1f} %", len(early)])
        for run in early:
            text += f"\nEnded without a reason: {run.instance} {run.budget} {run.contender} seed {run.seed}, {run.seconds:.1f} s\n"
        for (instance, budget), found in statuses.items():
            if len(set(found)) > 1:
                text += f"\nSeeds differ: {instance} {budget} {contender.name}: {', '.join(found)}\n"
    head = ["contender", "rows with several seeds", "the same status", "part", "runs that end without a reason"]
    return ("\n" + table(head, lines) if lines else "") + text


def page(suite, rows, results, missing, best_known, command, planned, plots):
    """The suite's page: what was run where, the tables, the plots (title and file), and what went wrong. `command`: what was
    typed; `missing`: what was left out, and why."""
    limits = sorted({instance.time_limit or suite.time_limit for instance in suite.instances} or {suite.time_limit})
    limit = f"{limits[0]:g} to {limits[-1]:g} s" if len(limits) > 1 else f"{limits[0]:g} s"
    text = (f"# Suite {suite.name}\n\nMade by\n\n    {command}\n\n{limit} and {suite.threads} "
            f"thread{'' if suite.threads == 1 else 's'} a run, one run after the other, pinned to as many cores. {len(results)} "
            f"of {planned} planned runs have a result.\n\n")
    for name, values in (("machine", {run.machine for run in results}),
                         ("solvers", {run.version for run in results if run.version}),
                         ("commits", {run.commit for run in results}),
                         ("days", {run.when.partition("T")[0] for run in results})):
        text += f"- {name}: {', '.join(sorted(values))}".rstrip() + "\n"
    text += results_table(suite, rows, best_known) + "\n" + summary_table(suite, rows) + seeds_text(suite, results)
    for title, file in plots:
        text += f"\n![{title}]({file})\n"
    for name, why in sorted(missing.items()):
        text += f"\nLeft out: {name}, {why}\n"
    for run in results:
        if run.status == "failed":
            text += f"\nFailed: {run.instance} {run.budget} {run.contender} seed {run.seed}: {run.note}\n"
    return text + "".join(f"\nContradiction: {line}\n" for line in contradictions(results))
