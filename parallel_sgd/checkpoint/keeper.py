"""Takes the checkpoints of a node: training pauses for a copy of the state, the rest happens beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Codec, Remembering
from parallel_sgd.engine.batches import Batches

from ..engine.progress import Position, Progress
from .schedule import NEVER, Schedule
from .snapshot import CODEC, Header, Snapshot
from .state import COUNTER, ModelFile, Resumption, State, state_of
from .store import Store
from .writer import Copies, Writer

MARK: Final = -1
"""Stands for the variable in the key of what a worker tells the server after a checkpoint of its own."""


class Commits:
    """Copies, in memory, of the states after the last two batches that were due; `every` so many batches one is due.

    Two, because workers may be a batch apart when training ends, and then have only the one before in common. The iteration
    begins with the older one.
    """

    def __init__(self, every: int = NEVER) -> None:
        self._every = every
        self._copies = Copies()
        self._kept: deque[tuple[Progress, State]] = deque()

    def due(self, batches: int) -> bool:
        return self._every != NEVER and batches % self._every == 0

    def take(self, progress: Progress, state: State) -> None:
        """Copy the state, in place of the older one."""
        if len(self._kept) == 2:
            self._copies.put_back(self._kept.popleft()[1][0])
        arrays, numbers = state
        self._kept.append((progress, (self._copies.take(arrays), dict(numbers))))

    def __iter__(self) -> Iterator[tuple[Progress, State]]:
        return iter(self._kept)


class Keeper:
    """Copies states and has them written into `store`; `header` holds what all checkpoints of the node have in common.

    `model` is written after each.
    """

    def __init__(self, store: Store, header: Header, model: ModelFile | None = None) -> None:
        self._header, self._waits = header, store.keep_every is not None
        self._copies = Copies()
        self.writer = Writer(store, lambda snapshot: self._copies.put_back(dict(snapshot.arrays)), model)

    def describe(self, batches: Batches) -> None:
        self._header = replace(self._header, batch_size=batches.batch_size, batches=batches.count, samples=batches.samples)

    def batches_before(self, position: Position) -> int:
        return position.epoch * self._header.batches + position.batch

    def prepare(self, state: State) -> None:
        """Get memory for copies of such a state, beside training."""
        self._copies.prepare(state[0])

    def keep(self, progress: Progress, personal: bool, state: State, commit: bool = False) -> None:
        """Copy a state and have it saved; one that waited for the disk until now is left out.

        Not so a personal one, because the nodes would leave out different ones and have none in common; nor where some stay.
        """
        arrays, numbers = state
        if personal or self._waits:
            self.writer.await_turn()
        self.writer.withdraw()  # its memory may take this one
        header = replace(self._header, progress=progress, personal=personal, commit=commit)
        self.writer.submit(Snapshot(header, self._copies.take(arrays), numbers))

    def close(self) -> None:
        self.writer.close()
        self._copies.close()


@dataclass(frozen=True)
class Checkpointing:
    """What a node goes on from, and who takes its checkpoints.

    `server_keeps` says that the parameter server takes some of its own. `job` is the job's id: its later attempts are no other
    job to the ledger.
    """

    resumption: Resumption | None = None
    keeper: Keeper | None = None
    server_keeps: bool = False
    job: str = ""


NO_CHECKPOINTS: Final = Checkpointing()


@dataclass
class WorkerKeeper:
    """The checkpoints of a worker: `schedule` says when, `capture` gives the live state and whether it is personal, `mark`
    tells the parameter server, where there is one that remembers something. `commits` are kept of a personal state.
    """

    keeper: Keeper
    schedule: Schedule
    capture: Callable[[], tuple[State, bool]]
    mark: Callable[[Position, float | None], None] | None = None
    commits: Commits = field(default_factory=Commits)
    _prepared: bool = False
    _personal: bool | None = None

    def due(self, position: Position) -> bool:
        """Whether there is a checkpoint at this position. The first batch, which has made all arrays, shows their sizes."""
        if not self._prepared:
            self._prepared = True
            self.keeper.prepare(self.capture()[0])
        return self.schedule.due(position)

    def gathers(self, position: Position) -> bool:
        """Whether all workers save here, so that they may bring together first what is spread over them."""
        return position.batch == 0 and self.schedule.on_all(position)

    def keep(self, progress: Progress) -> None:
        state, personal = self.capture()
        if self.mark is not None:
            self.mark(progress.position, progress.evaluation.get("Loss") if progress.position.batch == 0 else None)
        self.keeper.keep(progress, personal, state)

    def commits_at(self, position: Position) -> bool:
        """Whether `leave` will need a copy of the state at this position: one that other workers do not have, without a server
        that remembers, whose state could not be had with it. The live state is the commit otherwise.
        """
        if self.mark is not None or not self.commits.due(self.keeper.batches_before(position)):
            return False
        if self._personal is None:
            self._personal = self.capture()[1]
        return self._personal

    def commit(self, progress: Progress) -> None:
        self.commits.take(progress, self.capture()[0])

    def leave(self, progress: Progress) -> None:
        """Save the state after the last whole batch of a training that ends too early.

        The live one only where all workers have the same, without a server that remembers: what codecs remember of single
        workers may belong to the batch that broke off already. Of that batch composed codecs have counted no more than that it
        began. Of a state of its own, a worker saves the last commits.
        """
        for past, state in self.commits:
            self.keeper.keep(past, True, state, commit=True)
        (arrays, numbers), personal = self.capture()
        if personal or self.mark is not None or self.settled(progress.position):
            return
        done = self.keeper.batches_before(progress.position)
        counted = {name: done if name.endswith(COUNTER) else value for name, value in numbers.items()}
        self.keeper.keep(progress, False, (arrays, counted))

    def settled(self, position: Position) -> bool:
        """Whether a state of this position or a later one is on the disk, or was refused by it."""
        tried = self.keeper.writer.tried
        return tried is not None and tried >= position

    def close(self) -> None:
        self.keeper.close()


class ServerKeeper:
    """The checkpoints of a parameter server. The workers' marks cut what it has received in two.

    What a worker sends arrives in order, so its mark stands between what belongs before its checkpoint and what comes after.
    Under synchronous types nobody is past a batch that the server has not answered to all: the first mark is the moment.
    Under others the server waits until the last worker has come there; what the faster ones sent since is in the state too.
    """

    def __init__(self, keeper: Keeper, bank: CodecBank, staleness: float) -> None:
        self._keeper = keeper
        self._bank = bank
        self._first_counts = staleness == 0
        self._marks: dict[int, Position] = {}
        self._kept = Position(-1, 0)

    def marked(self, node: int, position: Position, loss: float | None, present: Sequence[int]) -> None:
        """A mark of `node` has come; `present` are the workers that have not left."""
        self._marks[node] = position
        moment = position
        if not self._first_counts:
            moment = min(self._marks.get(worker, Position(-1, 0)) for worker in {*present, node})
        if moment > self._kept:
            self._kept = moment
            evaluation = {} if loss is None else {"Loss": loss}
            self._keeper.keep(Progress(moment, evaluation=evaluation), True, server_state(self._bank))

    def close(self) -> None:
        self._keeper.close()


def server_state(bank: CodecBank) -> State:
    return state_of({CODEC: bank.state_dict()})


def keeps_state(kinds: Sequence[type[Codec]]) -> bool:
    return any(issubclass(kind, Remembering) for kind in kinds)
