"""Which side of a broken network may go on with a job."""

from __future__ import annotations

from collections.abc import Collection, Hashable


def may_go_on(
    generation: Collection[Hashable], present: Collection[Hashable], ended: Collection[Hashable], *, submitter: bool
) -> bool:
    """Whether the side that reaches the workers `present` may go on; else it pauses.

    `generation` are all workers of the last round. Those whose processes are known to have ended are on no side; those who are
    merely silent may work on, on the other side of a cut. A side goes on that outnumbers the silent ones, so two sides never
    do; an even split pauses both. The submitter's word replaces all counting: it reaches one side only.
    """
    there = set(generation) & set(present)
    silent = set(generation) - there - set(ended)
    return submitter or len(there) > len(silent)
