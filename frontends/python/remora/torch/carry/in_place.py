# SPDX-License-Identifier: Apache-2.0
"""Which results of Inductor's kernels may lie where an argument lay, as Inductor itself would decide.

Inductor is told not to reuse memory, so that each kernel may run again; where a schedule releases an argument behind a
kernel, the result may still take its place. That is allowed where Inductor would allow it: the last loop of the kernel
that reads the argument writes the result, and all accesses of both are at the same index.

Inductor's scheduler knows this, which is there only while Inductor compiles. Programs that Inductor keeps in its own
cache are not compiled again, so what was found is kept beside our costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..capture.lowered import compiling_by
from ..store import cache_folder, digest, write_json

Pairs = list[tuple[str, str]]
"""Names of buffers: of a result, and of the argument in whose place it may lie."""


def compiled_with_pairs(compile_it: Callable[..., Any]) -> tuple[Any, Pairs]:
    """What Inductor compiles, and its pairs.

    Parameters
    ----------
    compile_it : callable
        Compiles, with further settings of Inductor.
    """
    with _noted() as found:
        compiled = compile_it()
    key = digest(compiled.source_code)
    path = cache_folder() / "in_place" / f"{key}.json"
    if not found and path.exists():
        return compiled, [(result, given) for result, given in json.loads(path.read_text(encoding="utf-8"))]
    if not found:
        with _noted() as found:
            compiled = compile_it(fx_graph_cache=False, fx_graph_remote_cache=False)
        key = digest(compiled.source_code)
    assert len(found) == 1, "one graph gives one program"
    write_json(path.with_name(f"{key}.json"), found[0])
    return compiled, found[0]


@contextmanager
def _noted() -> Iterator[list[Pairs]]:
    """Fills a list with the pairs of each program that Inductor writes."""
    found: list[Pairs] = []

    def noting(own: Callable[[Any], Any], graph: Any) -> Any:
        module = own(graph)
        found.append([pair for node in graph.scheduler.nodes for pair in _pairs_in(graph, node)])
        return module

    with compiling_by(noting):
        yield found


def _pairs_in(graph: Any, kernel: Any) -> Iterator[tuple[str, str]]:
    """The pairs of one kernel; a call of a library has none."""
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.scheduler import SchedulerNode

    parts = list(kernel.get_nodes())
    if kernel.is_extern() or kernel.is_template() or not all(isinstance(part, SchedulerNode) for part in parts):
        return
    made = {name for part in parts for name in part.get_buffer_names()}
    for last in parts:
        outputs = last.get_outputs()
        if len(outputs) != 1 or len(last.read_writes.writes) != 1:
            continue
        (output,) = outputs
        written = next(iter(last.read_writes.writes))
        if not isinstance(written, MemoryDep) or output.node is None or not output.node.should_allocate():
            continue
        name = output.get_name()
        if output.get_aliases() or output.get_mutations() or name in graph.removed_buffers:
            continue
        for given in dict.fromkeys(dep.name for dep in last.read_writes.reads if dep.name not in made):
            readers = [part for part in parts if any(dep.name == given for dep in part.read_writes.reads)]
            accesses = {dep for part in readers for dep in part.read_writes.reads if dep.name == given}
            before = [part for part in readers if part is not last]
            if len(accesses) != 1 or not all(part.get_first_name() in last.ancestors for part in before):
                continue
            (access,) = accesses
            if isinstance(access, MemoryDep) and access.index == written.index and access.size == written.size:
                yield name, given
