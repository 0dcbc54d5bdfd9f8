"""Which neighbouring variables are exchanged as one vector: what a packet costs beside its bytes is then paid once for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nn.optimizer import IOptimizer

from .batch_sync.sync.interface import SyncChoice
from .batch_sync.sync.synchronized import SynchronizedSGD
from .codec.interfaces import Codec

#: A vector that holds as many bytes takes no further variable, and leaves while the gradients before it are computed.
JOINED_BYTES: Final = 1 << 17


def join(
    kinds: Sequence[type[Codec]],
    sizes: Sequence[int],
    op_type: type[IOptimizer],
    sync_type: SyncChoice,
    has_server: bool = False,
) -> list[range]:
    """The variables of each vector, in their order, all where none are joined.

    Neighbours of one codec are joined as long as a vector holds fewer than `JOINED_BYTES`, from the last variable on, as
    backward computes them. Codec and optimizer must both say, each for itself, that they can do with vectors (`joins`). `sizes`
    are those of the variables in bytes. A parameter server counts variables, so with one none are joined. It is the same on all
    workers.
    """
    joins = _says_so(op_type) and sync_type is SynchronizedSGD and not has_server
    found: list[range] = []
    held = 0
    for variable in reversed(range(len(kinds))):
        kind = kinds[variable]
        if joins and found and held < JOINED_BYTES and kind is kinds[variable + 1] and _says_so(kind):
            found[-1] = range(variable, found[-1].stop)
        else:
            found.append(range(variable, variable + 1))
            held = 0
        held += sizes[variable]
    return found[::-1]


def _says_so(kind: type[IOptimizer] | type[Codec]) -> bool:
    return "joins" in vars(kind) and kind.joins()
