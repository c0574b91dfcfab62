# SPDX-License-Identifier: Apache-2.0
"""Two sides, OLD and NEW, on the same problems: what each pair of runs says, and a sign test over problems.

A *problem* is an instance and a budget; its seeds are runs of one problem, so their differences are averaged before the
test, which takes problems for independent. Three measures, each smaller if better:

    gap    (schedule - bound) / schedule when the run ends; 1 without a schedule, 0 if proved infeasible
    first  seconds until the first schedule within the budget, by the program's own clock
    proof  seconds of the process, if the run ends with a proof

A measure is worse if so few of the problems that differ favour NEW that a fair coin would give as few in less than
LEVEL / 3 of all comparisons (Dixon and Mood 1946; three measures, Bonferroni)."""
import dataclasses
import math
import statistics

from harness.suite import Contender

MEASURES = ("gap", "first", "proof")
LEVEL = 0.01
SAME_GAP = 1e-5  # gaps that differ by less are the same: 0.001 %
SAME_SECONDS, SAME_RATIO = 0.1, 1.1  # and times that differ by less than this, or by less than 10 %


@dataclasses.dataclass
class Side:
    """A program (remora's path) and options of `remora solve`, in place of the comparison's."""
    name: str
    program: str
    options: list
    mark: str  # of the program's content: a run of another program is not this one's

    def contender(self, instance, work_limit):
        """What the runner calls for this instance: a work limit in place of seconds, unless the side states a limit."""
        states_one = any(word.startswith(("--work-limit", "--time-limit")) for word in self.options)
        limit = [f"--work-limit={work_limit}"] if work_limit and not states_one else []
        arguments = [*self.options, *limit]
        asked = " ".join([self.mark, *instance.arguments, *arguments])
        return Contender(self.name, arguments, program=self.program, asked=asked)


def gap_of(run):
    if run.has_schedule():
        return 1 - run.lower_bound / run.duration
    return 0.0 if run.status == "infeasible" else 1.0


def first_of(run):
    return run.history[0][0] if run.has_schedule() and run.history else math.inf


def proof_of(run):
    return run.seconds if run.status in ("optimal", "infeasible") else math.inf


VALUE = {"gap": gap_of, "first": first_of, "proof": proof_of}


def better(measure, old, new):
    """1 where NEW is better, -1 where it is worse, 0 where both are the same but for noise."""
    if old == new:
        return 0
    if math.isfinite(old) and math.isfinite(new):
        if measure == "gap":
            same = abs(old - new) < SAME_GAP
        else:
            same = abs(old - new) < SAME_SECONDS or max(old, new) < SAME_RATIO * min(old, new)
        if same:
            return 0
    return 1 if new < old else -1


@dataclasses.dataclass
class Problem:
    """The pairs of runs of one instance and budget, one for each seed that both sides answered."""
    instance: str
    budget: str
    pairs: list = dataclasses.field(default_factory=list)

    def values(self, measure):
        """The mean of each side over the seeds; infinite if one of them is."""
        sides = zip(*((VALUE[measure](old), VALUE[measure](new)) for old, new in self.pairs), strict=True)
        return tuple(statistics.fmean(side) for side in sides)

    def sign(self, measure):
        """Whether NEW is better (1) or worse (-1) in more of its seeds."""
        total = sum(better(measure, VALUE[measure](old), VALUE[measure](new)) for old, new in self.pairs)
        return (total > 0) - (total < 0)


def problems_of(results, sides):
    """The problems that both sides have answered, in the order of their runs."""
    old = {(run.instance, run.budget, run.seed): run for run in results if run.contender == sides[0].name}
    found = {}
    for run in results:
        key = (run.instance, run.budget, run.seed)
        if run.contender == sides[1].name and key in old and "failed" not in (run.status, old[key].status):
            found.setdefault(key[:2], Problem(*key[:2])).pairs.append((old[key], run))
    return list(found.values())


def at_most(few, count):
    """The chance of at most `few` heads in `count` throws of a fair coin."""
    return sum(math.comb(count, i) for i in range(few + 1)) / 2**count


@dataclasses.dataclass
class Verdict:
    """The sign test of one measure. `worse`, `improved`: significantly."""
    measure: str
    gains: int
    losses: int
    same: int

    def chance(self):
        """Of a result as uneven as this, in this direction, if the sides do not differ."""
        return at_most(min(self.gains, self.losses), self.gains + self.losses)

    def is_significant(self):
        return self.gains != self.losses and self.chance() < LEVEL / len(MEASURES)

    @property
    def worse(self):
        return self.is_significant() and self.losses > self.gains

    @property
    def improved(self):
        return self.is_significant() and self.gains > self.losses

    def word(self):
        return "worse" if self.worse else "better" if self.improved else "no significant difference"


def verdicts(problems):
    signs = {measure: [problem.sign(measure) for problem in problems] for measure in MEASURES}
    return [Verdict(measure, found.count(1), found.count(-1), found.count(0)) for measure, found in signs.items()]


def text_of(measure, value):
    if measure == "gap":
        return f"{100 * value:.3f} %"
    return f"{value:.2f} s" if math.isfinite(value) else "-"


def table(problems):
    """A line for each problem: gap, first schedule and proof of both sides, and + or - where NEW is better or worse."""
    rows = [["problem", "seeds", *(f"{measure} {side}" for measure in MEASURES for side in ("old", "new"))]]
    for problem in problems:
        row = [f"{problem.instance} {problem.budget}", str(len(problem.pairs))]
        for measure in MEASURES:
            old, new = problem.values(measure)
            mark = {1: " +", -1: " -", 0: ""}[problem.sign(measure)]
            row += [text_of(measure, old), text_of(measure, new) + mark]
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def report(problems, asked):
    """The lines of a comparison: each problem, losses and gains of the gap, and the verdicts."""
    yield from table(problems)
    for title, sign in (("losses", -1), ("gains", 1)):
        found = [problem for problem in problems if problem.sign("gap") == sign]
        found.sort(key=lambda problem: -abs(problem.values("gap")[1] - problem.values("gap")[0]))
        if found:
            listed = ", ".join("{} {} ({:+.3f} %)".format(
                problem.instance, problem.budget, 100 * (problem.values("gap")[1] - problem.values("gap")[0]))
                for problem in found)
            yield f"{title} of gap: {listed}"
    gaps = [problem.values("gap") for problem in problems]
    if gaps:
        means = [statistics.fmean(side) for side in zip(*gaps, strict=True)]
        yield f"mean gap: {100 * means[0]:.4f} % -> {100 * means[1]:.4f} %, {len(problems)} of {asked} problems"
    for verdict in verdicts(problems):
        yield (f"{verdict.measure}: {verdict.gains} better, {verdict.losses} worse, {verdict.same} the same "
               f"(p = {verdict.chance():.4f}): {verdict.word()}")
