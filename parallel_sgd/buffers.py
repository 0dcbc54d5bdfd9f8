"""How the buffers of a model (the statistics of BatchNorm) travel: as one more vector after the variables, lossless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .batch_sync import SyncChoice
from .codec.compose import PS, AllToAll
from .codec.compose.composed import Composed
from .codec.interfaces import Codec
from .codec.plain import DummyCodec

#: Stands for a variable's name in accounts and messages.
BUFFERS: Final = "buffers"


class OwnBuffers(DummyCodec):
    """The mean over the worker's own blocks: for workers that train models of their own, or wait for nobody.

    It is done when the worker has put its last block, so it needs neither peers nor a barrier under any sync type.
    """

    takes_first_copy = True
    awaits_answer = True


def buffers_codec(kinds: Sequence[type[Codec]], lossless: type[Codec], sync_type: SyncChoice) -> type[Codec]:
    """The codec of the buffers beside the codecs of the variables, `kinds`, on a worker and on the server.

    `lossless`, the job's default codec, as long as all workers have equal parameters in every batch. Where they meet only now
    and then, because a composed codec has a trigger, the buffers meet in the same batches. Else they are OwnBuffers.
    """
    if sync_type.staleness == 0 and all(kind.agrees for kind in kinds):
        return lossless
    if sync_type.staleness == 0 and len(set(kinds)) == 1 and issubclass(kinds[0], Composed):
        composition = kinds[0].composition
        if composition.exchange.agrees and composition.send != "gradient":  # type: ignore[attr-defined]
            exchange = PS() if lossless.needs_server else AllToAll()
            return Codec.of(exchange, send="weights", trigger=composition.trigger, name="Buffers")  # type: ignore[attr-defined]
    return OwnBuffers
