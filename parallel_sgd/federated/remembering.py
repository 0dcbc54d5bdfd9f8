"""Memory of the clients of a job in the round of a worker: of codecs, control variates, terms and personal variables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nn.arrays import Array
from nn.value.store import VariableStore
from nn.value.value import Variable

from ..checkpoint.snapshot import CheckpointError
from ..codec.interfaces import Codec
from ..profiles.blockassignment.abstract import ISetting
from .clients import Clients
from .contributions import personal_places
from .memory import COMMON, ClientMemory, Memories, State
from .population import Round

if TYPE_CHECKING:
    from ..engine.exchange import BlockExchange
    from ..engine.plan import WorkerPlan

MOST_BYTES: Final = 256 << 20
"""Bytes of the memories of all clients that each of several workers may hold."""
CONTROL: Final = "control"
TERM: Final = "term:"
"""Beginning of the name of a vector of `Clients(term=)`."""
PERSONAL: Final = "personal:"
"""Beginning of the name of a personal variable in the memory of a client."""


def hosting(plan: WorkerPlan, kinds: list[type[Codec]]) -> Memories | None:
    """Add the codec for the memory of clients behind those of a worker, where clients remember anything.

    Args:
        plan: that of the workers.
        kinds: classes of the codecs of the worker; changed.

    Returns: the memories of all clients, empty; None where clients remember nothing.
    """
    clients = plan.options.clients
    if clients is None:
        return None
    own = clients.control_variates or clients.personal or (clients.term is not None and clients.term.remembers)
    if not own and not remembering(dict.fromkeys(kinds), plan.assignment, plan.codec_parameters):
        return None
    kinds.append(ClientMemory)
    return Memories()


def remembering(kinds: Iterable[type[Codec]], assignment: ISetting, parameters: Mapping[Hashable, Any]) -> bool:
    """Tell whether any of the codecs of a job remembers something of each client."""
    if not any(hasattr(kind, "composition") for kind in kinds):
        return False
    from .codecs import memory_bytes  # noqa: PLC0415 - it loads the parts of composed codecs

    return any(memory_bytes(kind, 1, assignment, parameters) for kind in kinds)


def check_memory(
    clients: Clients,
    kinds: Sequence[type[Codec]],
    variables: Sequence[Variable],
    assignment: ISetting,
    parameters: Mapping[Hashable, Any],
    rounds: int,
    statistics: Sequence[Variable] = (),
) -> None:
    """Check that each of several workers can hold the memories of all clients.

    Args:
        clients: those of the job.
        kinds: class of the codec of each variable.
        variables: those of the model.
        assignment: that of the job.
        parameters: `codec_extra_parameters` of the job.
        rounds: number of rounds of the job.
        statistics: those of the layers of the model.

    Raises: ValueError naming the bytes and the limit.
    """
    values = [variable.value for variable in variables]
    own, buffers = personal_places(clients, [each.name for each in variables], [each.name for each in statistics])
    size = sum(values[each].nbytes for each in own) + sum(statistics[each].value.nbytes for each in buffers)
    vectors = clients.control_variates + len(() if clients.term is None else clients.term.remembers)
    size += sum(value.nbytes for value in values) * vectors
    if any(hasattr(kind, "composition") for kind in kinds):
        from .codecs import memory_bytes  # noqa: PLC0415 - it loads the parts of composed codecs

        pairs = zip(kinds, values, strict=True)
        size += sum(memory_bytes(kind, value.size, assignment, parameters) for kind, value in pairs)
    most = size * min(clients.count, clients.slots * rounds)  # clients that are never chosen have no memory
    if most > MOST_BYTES and assignment.node_count > 1:
        raise ValueError(
            f"'clients' have a memory of {size:,} bytes each, {most / 2**20:,.0f} MiB for those that the job can choose, and "
            f"each of several workers may hold {MOST_BYTES >> 20}: take one worker, such as in_process(1), or fewer clients"
        )


class Remembering:
    """Memory of clients in the rounds of one worker.

    Args:
        clients: those of the job.
        memories: of all clients.
        exchange: that of the worker, of which the last codec is `ClientMemory`.
        encoding: codecs that encode client by client.
        store: variables of the model.
    """

    def __init__(
        self, clients: Clients, memories: Memories, exchange: BlockExchange, encoding: Sequence[Codec], store: VariableStore
    ) -> None:
        bank = exchange.bank
        codec = bank.codecs[-1]
        if not isinstance(codec, ClientMemory):
            raise TypeError(f"the last codec of a worker must be ClientMemory, got {type(codec).__name__}")
        self._count, self._memories, self._bank, self._codec = clients.count, memories, bank, codec
        self.place = len(bank.codecs) - 1
        self._sync = exchange.sync
        self._encoding: list[Any] = list(encoding)
        self._store = store
        self._nothing = np.empty(0, np.uint8)
        #: What is added to each gradient of the client that trains; None without control variates.
        self.drift: Array | None = np.zeros_like(store.values) if clients.control_variates else None
        self._own: State = {}
        self._term = clients.term
        #: Vectors of the term of the client that trains, by name.
        self.kept: dict[str, Array] = {}
        self._zeros = np.zeros_like(store.values) if clients.term is not None else self._nothing
        places, buffers = personal_places(
            clients, [variable.name for variable in store.variables], [buffer.name for buffer in store.buffers]
        )
        self._personal = [*(store.variables[place] for place in places), *(store.buffers[place] for place in buffers)]
        ends = np.cumsum([0, *(variable.value.size for variable in store.variables)]).tolist()
        #: Parts of the vector of all parameters that are personal.
        self.personal = [slice(ends[place], ends[place + 1]) for place in places]
        self._common = [variable.value.copy() for variable in self._personal]
        # all clients remember the same things, so one tells whether the memories of a checkpoint are those of this job
        for state in memories.all()[:1]:
            try:
                self._recall(state)
            except ValueError as error:
                raise CheckpointError(f"The checkpoint's memory of clients does not suit the job's codecs: {error}") from error

    def begin(self, client: int) -> None:
        """Give model, codecs and control variates the memory of the client that is trained next, by its number."""
        state = self._memories.of(client)
        self._own = {}
        for variable, common in zip(self._personal, self._common, strict=True):
            np.copyto(common, variable.value)
            own = state.get(PERSONAL + variable.name)
            if own is not None:
                np.copyto(variable.value, own)
        self._recall(state)
        if self._term is not None:
            # one array of zeros for all: a term must not write to what it gets
            self.kept = {name: state.get(TERM + name, self._zeros) for name in self._term.remembers}
        if self.drift is not None:
            mean, variate = self._memories.of(COMMON).get(CONTROL), state.get(CONTROL)
            self.drift[:] = 0 if mean is None else mean
            if variate is not None:
                self.drift -= variate

    def _recall(self, state: State) -> None:
        for place, codec in enumerate(self._encoding):
            start = f"{place}."
            codec.recall({name[len(start) :]: value for name, value in state.items() if name.startswith(start)})

    def trained(self, origin: Array, steps: int, rate: float) -> None:
        """Make the memory of a client that has trained: its personal variables, of which no change is left, and its control
        variate c_i + (c_i' - c_i) = c_i - c + (x - y) / (K eta).

        Args:
            origin: x, the parameters from which it began; its own stand in the model.
            steps: K, their number.
            rate: eta, the learning rate.
        """
        if self._term is not None:
            kept = self._term.kept(self._store.values, origin, self.kept)
            for name, vector in kept.items():
                # of what stays with the client the global model has another meaning
                for part in self.personal:
                    vector[part] = 0
                self._own[TERM + name] = vector
        for variable, common in zip(self._personal, self._common, strict=True):
            self._own[PERSONAL + variable.name] = variable.value.copy()
            np.copyto(variable.value, common)
        if self.drift is not None:
            found = np.subtract(origin, self._store.values)
            found /= found.dtype.type(steps * rate)
            found -= self.drift
            self._own[CONTROL] = found

    def put(self, block: int, client: int | None) -> None:
        """Put the memory of the client of a slot, after its change was put.

        Args:
            block: the slot.
            client: number of the client; None for a slot without one.
        """
        own = self._own if client is not None else {}
        if client is not None:
            for place, codec in enumerate(self._encoding):
                own.update({f"{place}.{name}": value for name, value in codec.remembered().items()})
        self._codec.coming = own
        self._bank.update(self.place, block, self._nothing)

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Let the model have, while it is evaluated, the mean of the personal variables of all clients that have trained."""
        states, mean = self._memories.all(), {}
        for name in [PERSONAL + variable.name for variable in self._personal]:
            found = [state[name] for state in states if name in state]
            if found:
                # in the order of the clients, so that all workers have the same bits
                mean[name] = sum(found[1:], found[0]) / len(found)
        with self._having(mean):
            yield

    @contextmanager
    def evaluated_as(self, client: int) -> Iterator[None]:
        """Let the model have, while it is evaluated, the personal variables of a client; those of one that has not trained are
        those with which it would begin.

        Args:
            client: its number.
        """
        with self._having(self._memories.of(client)):
            yield

    @contextmanager
    def _having(self, values: Mapping[str, Any]) -> Iterator[None]:
        before = [variable.value.copy() for variable in self._personal]
        try:
            for variable in self._personal:
                if PERSONAL + variable.name in values:
                    np.copyto(variable.value, values[PERSONAL + variable.name])
            yield
        finally:
            for variable, value in zip(self._personal, before, strict=True):
                np.copyto(variable.value, value)

    def apply(self, now: Round) -> None:
        """Take over the memories of all clients of a round, which are there.

        Args:
            now: the round.
        """
        self._sync.get(self.place)
        found = {client: self._codec.found[slot] for slot, client in enumerate(now.slots) if client is not None}
        if self.drift is not None:
            common = self._memories.of(COMMON).get(CONTROL)
            common = np.zeros_like(self._store.values) if common is None else common.copy()
            # in the order of the slots, so that all workers have the same bits
            total = np.zeros_like(common)
            for client, state in found.items():
                total += state[CONTROL]
                before = self._memories.of(client).get(CONTROL)
                if before is not None:
                    total -= before
            # of the mean over all clients, of which those outside of the round keep their c_i
            common += total / total.dtype.type(self._count)
            self._memories.after({COMMON: {CONTROL: common}})
        self._memories.after(found)
