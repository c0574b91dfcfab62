# SPDX-License-Identifier: Apache-2.0
"""The picture of the arena shows what the file says."""

from page_case import PageTest


class ArenaPicture(PageTest):
    """The picture of the arena shows what the file says."""

    def setUp(self):
        self.graph, self.schedule = self.pages.read("unet.graph.json"), self.pages.read("placed.schedule.json")
        self.open("placed.html")

    def boxes(self):
        """(name, first step, last step, offset, size) as the page has them, in order."""
        found = self.browser.run(
            "const {boxes, schedule} = remoraReport.arena; const {tensors} = schedule.graph;"
            "return [...Array(boxes.count).keys()].map((i) => [boxes.tensor[i] < 0 ? '' : tensors.name[boxes.tensor[i]],"
            "boxes.first[i], boxes.last[i], boxes.offset[i], boxes.size[i]])"
        )
        return sorted(tuple(box) for box in found)

    def truth(self):
        """The same by following the file's steps."""
        sizes = {tensor["name"]: tensor["size"] for tensor in self.graph["tensors"]}
        workspaces = {op["name"]: op.get("workspace", 0) for op in self.graph["ops"]}
        steps = self.schedule["steps"]
        open_since = {name: (0, offset) for name, offset in self.schedule["arena"]["inputs"].items()}
        found = []
        for i, step in enumerate(steps):
            open_since.update({name: (i, offset) for name, offset in step["offsets"].items()})
            if "workspace_offset" in step:
                found.append(("", i, i, step["workspace_offset"], workspaces[step["op"]]))
            for name in step["free"]:
                if name in open_since:
                    first, offset = open_since.pop(name)
                    found.append((name, first, i, offset, sizes[name]))
        found += [(name, first, len(steps) - 1, offset, sizes[name]) for name, (first, offset) in open_since.items()]
        return sorted(found)

    def test_every_buffer_is_a_box_where_it_lies(self):
        self.assertEqual(self.boxes(), self.truth())
        frames, shapes = self.figures("arena")
        self.assertGreater(frames, 0)
        self.assertEqual(shapes, len(self.truth()))

    def test_the_pointer_tells_what_lies_there(self):
        name, first, _, offset, size = max(self.truth(), key=lambda box: box[4])
        self.browser.run(
            "const {arena} = remoraReport; arena.point(arena.toX(arguments[0] + 0.5), arena.toLevel(arguments[1]))",
            first,
            offset + size / 2,
        )
        words = self.text("#arena .readout")
        self.assertIn(name, words)
        self.assertIn(f"at {offset:,} to {offset + size:,}", words)

    def test_zoom_shows_less(self):
        before = self.figures("arena")[1]
        for _ in range(4):
            self.click("#arena [data-do=in]")
        self.assertLess(self.figures("arena")[1], before)
        self.click("#arena [data-do=reset]")
        self.assertEqual(self.figures("arena")[1], before)

    def test_without_addresses_there_is_none(self):
        self.open("unet.html")
        self.assertTrue(self.is_gone("#arena"))

    def test_nothing_of_several_devices_is_shown(self):
        self.open("unet.html")
        for place in ("#device-choice", "#lanes", "#device-tables"):
            self.assertTrue(self.is_gone(place), place)
