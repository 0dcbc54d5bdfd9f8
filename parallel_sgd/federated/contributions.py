"""Changes of clients on their way into the codecs of a worker: where they are weighed, and the bytes that they take."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from nn.extension import is_ours
from nn.value.store import VariableStore

from ..codec.choice import by_variable
from ..codec.interfaces import Codec
from ..codec.plain import Plain
from ..engine.exchange import BlockExchange
from ..record.history import HOSTING
from .clients import Clients

#: Parameters that are worked on together: of four arrays in float32 they fit into an L2 of 512 KiB.
_STRETCH: Final = 1 << 15


class Contributions:
    """Changes of clients for the codecs of a worker.

    A codec that adds up vectors as they are gets them weighed, so that its mean over blocks is the weighed mean over clients. A
    codec that encodes client by client gets the change itself, since what it remembers must not be weighed in another way in
    each round; it weighs where it merges (`Composed.by_client`).

    Args:
        exchange: that of the worker.
        store: variables of the model.
        clients: those of the job.
    """

    def __init__(self, exchange: BlockExchange, store: VariableStore, clients: Clients) -> None:
        codecs = [codec for codec in exchange.bank.codecs if type(codec).__name__ != HOSTING]
        variables = store.variables
        places = exchange.joined or [range(place, place + 1) for place in range(len(variables))]
        if len(codecs) - bool(store.buffers) == 1:
            # a codec of the whole model, also where its exchange collects the variables
            places = [range(len(variables))]
        # of personal variables nothing travels that counts: the zeros in their place are those of the simulation
        personal, statistics = personal_places(
            clients, [each.name for each in variables], [each.name for each in store.buffers]
        )
        stay = set(personal)
        theirs = {each for place, codec in zip(places, codecs, strict=False) if _encodes_clients(codec) for each in place}
        sent = sum(each.value.nbytes for place, each in enumerate(variables) if place not in stay)
        # a class of a program says what it sends by what it returns
        self._uploads = exchange.bank.uploads
        self._own = {
            exchange.bank.codecs.index(codec): sum(variables[each].value.nbytes for each in place if each not in stay)
            for place, codec in zip(places, codecs, strict=False)
            if not is_ours(type(codec)) and not _encodes_clients(codec) and not stay.issuperset(place)
        }
        self._uploads.update(dict.fromkeys(self._own, 0))
        self._alone = not exchange.bank.channel.peers()
        exact = sum(each.value.nbytes for place, each in enumerate(variables) if place not in stay | theirs)
        exact -= sum(self._own.values())
        # c comes down with the model, and the change of c_i goes up with that of the model
        beside = sum(each.value.nbytes for place, each in enumerate(store.buffers) if place not in statistics)
        beside += sent * clients.control_variates
        #: Bytes of the model, as a client gets it.
        self.bytes_down = sent + beside
        self._as_they_are = exact + beside
        #: Composed codecs that encode each client by itself.
        self.encoding: list[Codec] = [codec for codec in codecs if _encodes_clients(codec)]
        self._counted = [
            codec for place, codec in zip(places, codecs, strict=False) if codec in self.encoding and not stay.issuperset(place)
        ]
        #: Stretches of the vector of all parameters, and whether each is multiplied by the client's weight before it is put.
        self.stretches = list(_stretches([each.value.size for each in variables], theirs))

    def bytes_up(self) -> int:
        """Return the bytes of the last client's change, as it has been encoded, without heads and frames."""
        sent = self._as_they_are + sum(codec.uploaded for codec in self._counted)  # type: ignore[attr-defined]
        for place, plain in self._own.items():
            own, self._uploads[place] = self._uploads[place], 0
            # where there is no other worker a codec need not send anything
            sent += own or plain * self._alone
        return sent


def _stretches(sizes: Sequence[int], theirs: Collection[int]) -> Iterator[tuple[slice, bool]]:
    """Yield stretches of variables that lie side by side, and whether none of these is one of `theirs`."""
    end = 0
    for weighed, places in groupby(range(len(sizes)), lambda place: place not in theirs):
        start, end = end, end + sum(sizes[place] for place in places)
        yield from ((slice(at, min(at + _STRETCH, end)), weighed) for at in range(start, end, _STRETCH))


def _encodes_clients(codec: Codec) -> bool:
    # without the class itself, which a job of plain codecs need not load
    return hasattr(type(codec), "composition") and bool(codec.by_client)  # type: ignore[attr-defined]


def personal_places(clients: Clients, names: Sequence[str], statistics: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the numbers of the variables, and of the statistics of layers, that stay with each client.

    Args:
        clients: those of the job.
        names: those of the variables of the model.
        statistics: names of the statistics of its layers.

    Raises: ValueError naming the layer or variable that the model does not have, or where all variables would stay.
    """
    # names are found as those of a codec for some variables are
    found = by_variable(dict.fromkeys(clients.personal, Plain), [*names, *statistics], "clients personal")
    numbers = sorted(found) if isinstance(found, Mapping) else []
    own = [number for number in numbers if number < len(names)]
    if len(own) == len(names):
        raise ValueError("Clients 'personal' must leave a variable that all train together, got all of the model")
    return own, [number - len(names) for number in numbers[len(own) :]]
