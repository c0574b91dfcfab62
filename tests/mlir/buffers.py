# SPDX-License-Identifier: Apache-2.0
"""The memory of a bufferized function, read off its memref.alloc and memref.dealloc: no measurement, no prediction."""

import re

ELEMENT_BYTES = {"f64": 8, "i64": 8, "index": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "i1": 1}
ALLOCATION = re.compile(r"(%\w+) = memref\.alloc\(\).* : memref<([^,>]*)")
RELEASE = re.compile(r"memref\.dealloc (%\w+)")


def type_bytes(text):
    """Of "64x32xf32"."""
    *extents, element = text.split("x")
    total = ELEMENT_BYTES[element]
    for extent in extents:
        total *= int(extent)
    return total


def function_lines(module, name):
    """The head and the body of a function in printed MLIR."""
    lines = module.splitlines()
    first = next(k for k, line in enumerate(lines) if re.search(rf"func\.func .*@{name}\(", line))
    last = next(k for k in range(first, len(lines)) if re.match(r"  }$", lines[k]))
    return lines[first:last]


def peak_bytes(module, name):
    """Arguments, constants that are memory, and the most that is allocated at once; constants are memref.get_global."""
    head, *body = function_lines(module, name)
    arguments = head[head.index("(") : head.index(") {") if ") {" in head else head.index(")")].split(") ->")[0]
    present = sum(type_bytes(kind) for kind in re.findall(r"%\w+: memref<([^,>]*)", arguments))
    present += sum(type_bytes(kind) for kind in re.findall(r"memref\.get_global .* : memref<([^,>]*)", "\n".join(body)))
    sizes, peak = {}, present
    for line in body:
        if match := ALLOCATION.search(line):
            sizes[match.group(1)] = type_bytes(match.group(2))
            present += sizes[match.group(1)]
        elif match := RELEASE.search(line):
            present -= sizes.pop(match.group(1))
        peak = max(peak, present)
    return peak
