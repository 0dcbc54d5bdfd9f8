"""Changes of clients on their way into the codecs of a worker: where they are weighed, and the bytes that they take."""

from __future__ import annotations

from nn.arrays import Array
from nn.value.store import VariableStore

from ..codec.interfaces import Codec
from ..engine.exchange import BlockExchange
from ..record.history import HOSTING


class Contributions:
    """Changes of clients for the codecs of a worker.

    A codec that adds up vectors as they are gets them weighed, so that its mean over blocks is the weighed mean over clients. A
    codec that encodes client by client gets the change itself, since what it remembers must not be weighed in another way in
    each round; it weighs where it merges (`Composed.by_client`).

    Args:
        exchange: that of the worker.
        store: variables of the model.
        control_variates: whether clients send the changes of control variates, too.
    """

    def __init__(self, exchange: BlockExchange, store: VariableStore, control_variates: bool) -> None:
        codecs = [codec for codec in exchange.bank.codecs if type(codec).__name__ != HOSTING]
        variables = store.variables
        places = exchange.joined or [range(place, place + 1) for place in range(len(variables))]
        if len(codecs) - bool(store.buffers) == 1:
            # a codec of the whole model, also where its exchange collects the variables
            places = [range(len(variables))]
        #: Composed codecs that encode each client by itself.
        self.encoding: list[Codec] = [codec for codec in codecs if _encodes_clients(codec)]
        #: Parts of the gradients that are multiplied by the weight of the client before they are put.
        self.weighed_before: list[Array] = [store.gradients]
        #: Bytes of the model, as a client gets it.
        self.bytes_down = store.values.nbytes + store.buffer_values.nbytes
        self._as_they_are = self.bytes_down
        if control_variates:
            # c comes down with the model, and the change of c_i goes up with that of the model
            self.bytes_down += store.values.nbytes
        if self.encoding:
            theirs = {each for place, codec in zip(places, codecs, strict=False) if _encodes_clients(codec) for each in place}
            self.weighed_before = [each.gradient for place, each in enumerate(variables) if place not in theirs]
            self._as_they_are = store.buffer_values.nbytes + sum(each.nbytes for each in self.weighed_before)
        self._as_they_are += store.values.nbytes * control_variates

    def bytes_up(self) -> int:
        """Return the bytes of the last client's change, as it has been encoded, without heads and frames."""
        return self._as_they_are + sum(codec.uploaded for codec in self.encoding)  # type: ignore[attr-defined]


def _encodes_clients(codec: Codec) -> bool:
    # without the class itself, which a job of plain codecs need not load
    return hasattr(type(codec), "composition") and bool(codec.by_client)  # type: ignore[attr-defined]
