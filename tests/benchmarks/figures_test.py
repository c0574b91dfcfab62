# SPDX-License-Identifier: Apache-2.0
"""Which plots there are, what is in them, and that they can be drawn."""

import importlib.util
import unittest
import xml.etree.ElementTree

import harness_case
from harness.environment import use_environment
from harness.figures import draw, figures, styles
from harness.page import Cell, Row

CONTENDERS = ["auto", "hierarchical"]


def row_of(ops, compose):
    """One contender that says nothing of its phases, and one that does."""
    told = Cell(statistics={"levels": 3, "partition_seconds": 0.5, "compose_seconds": compose})
    return Row(f"graph-{ops}", "50%", "", ops, 0, 60, [Cell(), told])


def solved(instance, ops, budget, overhead):
    """`auto` finds a schedule, the other none."""
    cell = Cell(1, 1, overhead=overhead, reached=0.5, progress=[(0.0, overhead + 1), (0.5, overhead), (2.0, overhead)])
    return Row(instance, budget, "", ops, 0, 60, [cell, Cell(1)], best=overhead)


def find(rows, name):
    return next((figure for figure in figures(CONTENDERS, rows) if figure.name == name), None)


class Figures(unittest.TestCase):
    def test_show_the_time_of_each_phase_against_size_where_it_is_told(self):
        figure = find([row_of(2000, 8), row_of(1000, 2)], "phases-size")
        self.assertEqual([panel.title for panel in figure.panels], ["hierarchical, budget 50%"])
        self.assertEqual(
            [(series.name, series.points) for series in figure.panels[0].series],
            [("partition", [(1000, 0.5), (2000, 0.5)]), ("compose", [(1000, 2), (2000, 8)])],
        )

    def test_have_no_phases_of_one_size_or_of_nobody(self):
        self.assertIsNone(find([row_of(1000, 2)], "phases-size"))
        silent = [solved("a", 1000, "50%", 1.0), solved("b", 2000, "50%", 1.0)]
        self.assertIsNone(find(silent, "phases-size"))
        self.assertIsNotNone(find(silent, "time-size"))

    def test_leave_out_what_has_no_points(self):
        rows = [solved("a", 1000, "90%", 1.0), solved("a", 1000, "80%", 3.0)]
        made = figures(CONTENDERS, rows)
        self.assertEqual([figure.name for figure in made], ["progress", "overhead-time", "profile", "overhead-budget"])
        for figure in made:
            for panel in figure.panels:
                self.assertEqual([series.name for series in panel.series], ["auto"])
        self.assertEqual(figures(CONTENDERS, [row_of(1000, 2)]), [])

    def test_show_the_comparison(self):
        rows = [solved("a", 1000, "90%", 1.0), solved("a", 1000, "80%", 3.0)]
        points = lambda name, panel=0: find(rows, name).panels[panel].series[0].points
        self.assertEqual(points("overhead-budget"), [(80, 3.0), (90, 1.0)])
        self.assertEqual(points("overhead-time", 1), [(0.5, 3.0)])
        self.assertEqual(points("progress"), [(0.001, 2.0), (0.5, 1.0), (2.0, 1.0), (2.0, 1.0)])
        self.assertEqual(points("profile"), [(0.0, 0.0), (0.0, 50.0), (0.0, 100.0), (1.0, 100.0)])


@unittest.skipUnless(
    importlib.util.find_spec("matplotlib"), "there is no matplotlib: benchmarks/setup makes its environment"
)
class Drawings(harness_case.HarnessCase):
    def test_are_whole_and_the_same_again(self):
        rows = [solved("a", 1000, "90%", 1.0), solved("b", 2000, "80%", 3.0), row_of(500, 1), row_of(700, 1)]
        made = figures(CONTENDERS, rows)
        self.assertEqual(len(made), 6)
        for figure in made:
            draw(figure, self.path(figure.name))
            self.assertTrue(xml.etree.ElementTree.fromstring(self.read(figure.name)).tag.endswith("svg"))
            self.assertIn(figure.title, self.read(figure.name))
        draw(made[0], self.path("again"))
        self.assertEqual(self.read("again"), self.read(made[0].name))

    def test_tell_series_apart(self):
        for count in (1, 2, 10, 14):
            made = styles([str(i) for i in range(count)]).values()
            self.assertEqual(len({tuple(style["color"]) for style in made}), count)
            self.assertEqual(len({(style["marker"], style["linestyle"]) for style in made}), count)


if __name__ == "__main__":
    use_environment()
    harness_case.main()
