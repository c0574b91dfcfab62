# SPDX-License-Identifier: Apache-2.0
"""Collectives of neighbouring parameters as one, as trainers issue them: fewer of them, and larger ones."""

from __future__ import annotations

from collections import defaultdict

from fx._shapes import COLLECTIVES
from fx._step import JointStep, Work


def bucketed(step: JointStep, limit: int) -> JointStep:
    """The step with gathers of parameters in buckets, and the reduce-scatters of these parameters' gradients likewise.

    Parameters
    ----------
    limit : int
        Bytes: the most that a device puts into the gathers of a bucket, where it has several. Parameters follow each
        other as the forward text gathers them.
    """
    bucket_of: dict[str, int] = {}
    count, filled, group = -1, 0, ""
    for work in step.works:
        if work.kind != "all_gather_into_tensor" or not set(work.inputs) <= set(step.arguments):
            continue
        if count < 0 or work.group != group or filled + work.put_in > limit:
            count, filled, group = count + 1, 0, work.group
        filled += work.put_in
        bucket_of[work.name] = count
    parameter = {work.inputs[0]: bucket_of[work.name] for work in step.works if work.name in bucket_of}
    for work in step.works:
        of = next((step.gradient_of[t] for t in work.outputs if t in step.gradient_of), None)
        if work.kind == "reduce_scatter_tensor" and of in parameter:
            bucket_of[work.name] = -1 - parameter[of]
    members: dict[int, list[Work]] = defaultdict(list)
    for work in step.works:
        if work.name in bucket_of:
            members[bucket_of[work.name]].append(work)
    merged: list[Work] = []
    for work in step.works:
        bucket = members[bucket_of[work.name]] if work.name in bucket_of else [work]
        # What is gathered is issued with the first of its bucket; gradients have to wait for the last.
        if work is bucket[0 if work.kind == "all_gather_into_tensor" else -1]:
            merged.append(_merged(bucket))
    again = {m[0].name for m in members.values() if any(work.name in step.again for work in m)}
    names = {work.name for work in merged}
    return JointStep(step.arguments, merged, step.kept, (step.again | again) & names, step.gradient_of)


def _merged(bucket: list[Work]) -> Work:
    first = bucket[0]
    if len(bucket) == 1:
        return first
    assert first.kind in COLLECTIVES
    return Work(
        first.name,
        first.kind,
        first.phase,
        list(dict.fromkeys(t for work in bucket for t in work.inputs)),
        {t: size for work in bucket for t, size in work.outputs.items()},
        group=first.group,
        devices=first.devices,
        put_in=sum(work.put_in for work in bucket),
        workspace=sum(work.workspace for work in bucket),
    )
