"""Which workers, old and new, form the next round, and in which order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .hosts import Host, Place, deal
from .rounds import Worker


def seat(
    hosts: Sequence[Host],
    out: Collection[Place],
    living: Collection[Worker],
    holders: Collection[Worker],
    maximum: int | None,
    attempt: int,
) -> tuple[Worker, ...]:
    """The workers of a round by rank, at most `maximum`: one for each slot of `hosts`, which come by age, but those in `out`.

    `living` workers keep their slots, the other slots get workers born in this `attempt`. Ranks go host by host; hosts with
    one of `holders`, the workers that hold the state of the training, come first and on each host these come first, so that
    rank 0, from which all take the state, holds it if any does.
    """
    at = {worker.place: worker for worker in living}
    workers = [at.get(place) or Worker(*place, attempt) for place in deal(hosts, maximum, at, out)]
    age = {host.address: number for number, host in enumerate(hosts)}
    old = {worker.address for worker in workers if worker in holders}
    return tuple(sorted(workers, key=lambda w: (w.address not in old, age[w.address], w not in holders, w.slot)))
