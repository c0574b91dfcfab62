# SPDX-License-Identifier: Apache-2.0
"""The plots of a comparison: overhead over time (as in Moccasin's figure 5) and against time to solution, a performance profile
over overheads (Dolan and More 2002), overhead against budget and time against size where there are several, and seconds
of each phase against size where contenders tell them. What is in them needs the standard library alone, drawing them
matplotlib."""
import dataclasses
import math

MOST_PANELS = 12
LEAST_SECONDS = 0.001  # what is below the clock's use is shown as this: a logarithmic axis has no 0
WIDEST_EXCESS = 20.0  # baselines may be far off; the comparison is near the best


@dataclasses.dataclass
class Series:
    """`join`: "none" (marks alone), "line", or "steps" (the value holds until the next point)."""
    name: str
    points: list
    join: str = "none"


@dataclasses.dataclass
class Axis:
    label: str
    logarithmic: bool = False
    least: float | None = None
    most: float | None = None


@dataclasses.dataclass
class Panel:
    title: str
    x: Axis
    y: Axis
    series: list


@dataclasses.dataclass
class Figure:
    name: str  # of its file
    title: str
    panels: list
    columns: int = 1
    names: list = dataclasses.field(default_factory=list)  # that have a style; a name has the same in every panel


SECONDS = Axis("seconds to the last improvement", logarithmic=True)
OPS = Axis("ops", logarithmic=True)
OVERHEAD = Axis("overhead, %")


def seconds_shown(seconds):
    return max(LEAST_SECONDS, seconds)


def unique(values):
    return list(dict.fromkeys(values))


def by_budget(name, title, contenders, rows, x, y, point):
    """A panel for each budget: one point a row and contender that has a schedule."""
    budgets = unique(row.budget for row in rows)
    if len(budgets) > MOST_PANELS:
        title += f", the first {MOST_PANELS} budgets"
    panels = [Panel(f"budget {budget}", x, y,
                    [Series(contender, [point(row, row.cells[i]) for row in rows
                                        if row.budget == budget and row.cells[i].overhead is not None])
                     for i, contender in enumerate(contenders)]) for budget in budgets[:MOST_PANELS]]
    return Figure(name, title, panels, columns=2)


def profile(contenders, rows):
    """How many rows, in per cent, a contender solves within x per cent of the baseline above the best of the row."""
    rows = [row for row in rows if row.best is not None]
    excesses = [sorted(max(0.0, row.cells[i].overhead - row.best) for row in rows if row.cells[i].overhead is not None)
                for i in range(len(contenders))]
    most = min(max([1.0] + [max(excess) for excess in excesses if excess]), WIDEST_EXCESS)
    series = []
    for contender, excess in zip(contenders, excesses):
        points = [(0.0, 0.0)] + [(x, 100 * k / len(rows)) for k, x in enumerate(excess, 1) if x <= most]
        series.append(Series(contender, points + [(most, points[-1][1])] if excess else [], "steps"))
    return Figure("profile", "Performance profile",
                  [Panel("rows within x of the best", Axis("beyond the row's best, % of the baseline", most=most),
                         Axis("rows, %", least=0.0, most=100.0), series)])


def percent_of(budget):
    return float(budget[:-1]) if budget.endswith("%") else 0.0


def over_budgets(contenders, rows):
    instances = unique(row.instance for row in rows)
    title = "Overhead against budget"
    if len(instances) > MOST_PANELS:
        title += f", the first {MOST_PANELS} of {len(instances)}"
    panels = []
    for instance in instances[:MOST_PANELS]:
        series = [Series(contender, sorted((percent_of(row.budget), row.cells[i].overhead) for row in rows
                                           if row.instance == instance and row.cells[i].overhead is not None
                                           and percent_of(row.budget) > 0), "line")
                  for i, contender in enumerate(contenders)]
        least = min((x - 5 for one in series for x, _ in one.points), default=None)
        panels.append(Panel(instance, Axis("budget, % of the peak", least=least, most=100.0), OVERHEAD, series))
    return Figure("overhead-budget", title, panels, columns=3)


def progress(contenders, rows):
    """Overhead over time, for the rows in which it took longest to settle."""
    rows = [row for row in rows if row.best is not None]
    rows.sort(key=lambda row: max(cell.reached for cell in row.cells), reverse=True)
    panels = []
    for row in rows[:MOST_PANELS]:
        # Whoever ends early has its schedule for the rest of the time.
        end = max(cell.progress[-1][0] for cell in row.cells if cell.progress)
        series = [Series(contender, [(seconds_shown(seconds), overhead) for seconds, overhead in
                                     cell.progress + [(end, point[1]) for point in cell.progress[-1:]]], "steps")
                  for contender, cell in zip(contenders, row.cells)]
        panels.append(Panel(f"{row.instance}, budget {row.budget}", Axis("seconds", logarithmic=True), OVERHEAD, series))
    return Figure("progress", "Overhead over time, where it took longest", panels, columns=3)


def phases_by_size(contenders, rows):
    """A panel for each budget and contender that tells its phases: seconds of each phase against ops."""
    panels = []
    for budget in unique(row.budget for row in rows):
        for i, contender in enumerate(contenders):
            phases = {}
            for row in rows:
                for name, seconds in row.cells[i].statistics.items() if row.budget == budget else ():
                    if name.endswith("_seconds"):
                        phases.setdefault(name.removesuffix("_seconds"), []).append((row.ops, seconds_shown(seconds)))
            if phases:
                panels.append(Panel(f"{contender}, budget {budget}", OPS, Axis("seconds", logarithmic=True),
                                    [Series(name, sorted(points), "line") for name, points in phases.items()]))
    return Figure("phases-size", "Time of each phase against size", panels[:MOST_PANELS], columns=2)


def figures(contenders, rows):
    """Without series that have no points, and without figures that would be empty."""
    reached = lambda cell: seconds_shown(cell.reached)
    made = [progress(contenders, rows),
            by_budget("overhead-time", "Overhead against time to solution", contenders, rows, SECONDS, OVERHEAD,
                      lambda row, cell: (reached(cell), cell.overhead)),
            profile(contenders, rows)]
    if len({row.budget for row in rows}) > 1:
        made.append(over_budgets(contenders, rows))
    if len({row.ops for row in rows}) > 1:
        made.append(by_budget("time-size", "Time to solution against size", contenders, rows, OPS, SECONDS,
                              lambda row, cell: (row.ops, reached(cell))))
        made.append(phases_by_size(contenders, rows))
    for figure in made:
        for panel in figure.panels:
            panel.series = [series for series in panel.series if series.points]
        figure.panels = [panel for panel in figure.panels if panel.series]
        figure.names = unique(series.name for panel in figure.panels for series in panel.series)
        if set(figure.names) <= set(contenders):
            figure.names = list(contenders)
    return [figure for figure in made if figure.panels]


def styles(names):
    """Colour, mark and dash of each name: no two share a colour, nor mark and dash together."""
    import matplotlib
    count = max(1, len(names))
    # Ten colours that are told apart at a glance; beyond, as many as it takes around the circle.
    colours = list(matplotlib.colormaps["tab10"].colors) if count <= 10 else [
        matplotlib.colormaps["nipy_spectral"](0.05 + 0.9 * i / (count - 1)) for i in range(count)]
    marks, dashes = "os^Dv<>pX*P", ["-", "--", "-.", ":"]
    return {name: {"color": colours[i], "marker": marks[i % len(marks)], "linestyle": dashes[i % len(dashes)]}
            for i, name in enumerate(names)}


def draw_panel(axes, panel, style_of):
    for series in panel.series:
        style = dict(style_of[series.name], label=series.name)
        if series.join == "none":
            style["linestyle"] = ""
        if series.join == "steps":
            style |= {"drawstyle": "steps-post", "markevery": [0]}
        axes.plot(*zip(*series.points), linewidth=1.4, markersize=5, markerfacecolor="none", **style)
    axes.set_title(panel.title, fontsize=9)
    for axis, spec in ((axes.xaxis, panel.x), (axes.yaxis, panel.y)):
        axis.set_label_text(spec.label, fontsize=8)
    axes.set_xscale("log" if panel.x.logarithmic else "linear")
    axes.set_yscale("log" if panel.y.logarithmic else "linear")
    axes.set_xlim(panel.x.least, panel.x.most)
    axes.set_ylim(panel.y.least, panel.y.most)
    axes.grid(True, linewidth=0.3)
    axes.tick_params(labelsize=8)


def draw(figure, path):
    """The figure as an SVG file, the same for the same figure. Raises ImportError without matplotlib."""
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot
    style_of = styles(figure.names)
    columns = min(figure.columns, len(figure.panels))
    lines = math.ceil(len(figure.panels) / columns)
    with matplotlib.rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        canvas, grid = pyplot.subplots(lines, columns, figsize=(4.2 * columns + 0.6, 2.9 * lines + 0.9), squeeze=False,
                                       layout="constrained")
        for axes, panel in zip(grid.flat, figure.panels):
            draw_panel(axes, panel, style_of)
        for axes in grid.flat[len(figure.panels):]:
            axes.remove()
        handles = {label: handle for axes in canvas.axes for handle, label in zip(*axes.get_legend_handles_labels())}
        shown = [name for name in figure.names if name in handles]
        canvas.legend([handles[name] for name in shown], shown, loc="outside lower center", ncols=4, fontsize=8)
        canvas.suptitle(figure.title, fontsize=10)
        canvas.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(canvas)
