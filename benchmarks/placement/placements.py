# SPDX-License-Identifier: Apache-2.0
"""Tables of buffers, and a check of their offsets that shares nothing with the programs that are measured."""
import csv


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fault(asked, placed, arena):
    """What is wrong with a placement, or nothing: compares by sweeping over time."""
    events = []
    for before, after in zip(asked, placed, strict=True):
        begin, end = int(after["offset"]), int(after["offset"]) + int(after["size"])
        changed = [key for key in before if before[key] != after[key] and (key != "offset" or before[key] != "")]
        if changed:
            return f"the output has another buffer {after['id']}: {', '.join(changed)}"
        if begin < 0 or end > arena:
            return f"buffer {after['id']} ends at {end} of {arena}"
        if int(after["size"]) > 0 and int(after["lower"]) < int(after["upper"]):
            events += [(int(after["lower"]), 1, begin, end), (int(after["upper"]), 0, begin, end)]
    alive = []
    for time, begins, begin, end in sorted(events):
        if not begins:
            alive.remove((begin, end))
        elif any(begin < other[1] and other[0] < end for other in alive):
            return f"two buffers share bytes at time {time}"
        else:
            alive.append((begin, end))
    return ""
