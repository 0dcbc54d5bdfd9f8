"""Keepers of the checkpoints of a node: training pauses for a copy of the state, the rest happens beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Codec, Remembering
from parallel_sgd.engine.batches import Batches

from ..engine.progress import Part, Position, Progress
from .schedule import NEVER, Schedule
from .snapshot import CODEC, Header, Snapshot
from .state import COUNTER, ModelFile, Resumption, State, state_of
from .store import Store
from .writer import Copies, Writer

MARK: Final = -1
"""Stands for the variable in the key of the message that a worker sends the server after a checkpoint of its own."""


class Commits:
    """Copies, in memory, of the states after the last two batches that were due.

    Two, because workers may be a batch apart when training ends, and then have only the state before in common. The iteration
    begins with the older copy.

    Args:
        every: number of batches from one copy to the next; NEVER for no copies.
    """

    def __init__(self, every: int = NEVER) -> None:
        self._every = every
        self._copies = Copies()
        self._kept: deque[tuple[Progress, State]] = deque()

    def due(self, batches: int) -> bool:
        return self._every != NEVER and batches % self._every == 0

    def take(self, progress: Progress, state: State) -> None:
        """Copy the state, in place of the older copy.

        Args:
            progress: position of the state, and the history before it.
            state: live arrays and numbers.
        """
        # its arrays are used again: commits of every batch would otherwise cost memory of every batch
        if len(self._kept) == 2:
            self._copies.put_back(self._kept.popleft()[1][0])
        arrays, numbers = state
        # copied: the next batch changes the live arrays
        self._kept.append((progress, (self._copies.take(arrays), dict(numbers))))

    def __iter__(self) -> Iterator[tuple[Progress, State]]:
        return iter(self._kept)


class Keeper:
    """Keeper that copies states and has a thread write them.

    Args:
        store: takes the checkpoints.
        header: the fields that all checkpoints of the node have in common.
        model: the model file that is written after each checkpoint; None for none.
    """

    def __init__(self, store: Store, header: Header, model: ModelFile | None = None) -> None:
        # with `keep_every` a checkpoint that was left out would be missed, so training waits as for a personal state
        self._header, self._waits = header, store.keep_every is not None
        self._copies = Copies()
        # memory goes back to the copies when the writer has done with it, from its thread
        self.writer = Writer(store, lambda snapshot: self._copies.put_back(dict(snapshot.arrays)), model)

    def describe(self, batches: Batches, parts: Sequence[Part] = ()) -> None:
        """Fill in the fields of the header that are known once the data are there.

        Args:
            batches: of the data.
            parts: of a training that went on.
        """
        self._header = replace(
            self._header,
            batch_size=batches.batch_size,
            batches=batches.count,
            samples=batches.samples,
            parts=[[*part] for part in parts],
        )

    def batches_before(self, position: Position) -> int:
        """Return the number of batches from the beginning of training to `position`."""
        return position.epoch * self._header.batches + position.batch

    def prepare(self, state: State) -> None:
        """Get memory for copies of states like `state`, beside training."""
        self._copies.prepare(state[0])

    def keep(self, progress: Progress, personal: bool, state: State, commit: bool = False) -> None:
        """Copy a state and have it saved; a state that waited for the disk until now is left out.

        Where the state is personal, training waits for the disk instead, up to PATIENCE_SECONDS, because the nodes would leave
        out different checkpoints and have none in common; so it does where `keep_every` makes some stay.

        Args:
            progress: position of the state, and the history before it.
            personal: whether other workers have other states at the position.
            state: live arrays and numbers.
            commit: whether training ended too early, and the schedule asked for no checkpoint here.
        """
        arrays, numbers = state
        # before `withdraw`: the one that waits is wanted, where all nodes must have the same positions
        if personal or self._waits:
            self.writer.await_turn()
        # a newer state makes the one that waits superfluous, and takes its memory
        self.writer.withdraw()
        header = replace(self._header, progress=progress, personal=personal, commit=commit)
        self.writer.submit(Snapshot(header, self._copies.take(arrays), numbers))

    def close(self) -> None:
        self.writer.close()
        self._copies.close()


@dataclass(frozen=True)
class Checkpointing:
    """Checkpoint from which a node goes on, and the keeper of its checkpoints.

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
    """The checkpoints of a worker.

    Args:
        keeper: copies and saves states.
        schedule: says at which positions.
        capture: returns the live state and whether it is personal.
        mark: tells the parameter server position and loss, where there is a server that remembers something; else None.
        commits: copies that are kept of a personal state.
    """

    keeper: Keeper
    schedule: Schedule
    capture: Callable[[], tuple[State, bool]]
    mark: Callable[[Position, float | None], None] | None = None
    commits: Commits = field(default_factory=Commits)
    _prepared: bool = False
    _personal: bool | None = None

    def due(self, position: Position) -> bool:
        """Tell whether there is a checkpoint at `position`."""
        # the first batch has made all arrays, so that their sizes are known now
        if not self._prepared:
            # in a thread, beside the second batch: making and touching memory would stop training at its first checkpoint
            self._prepared = True
            self.keeper.prepare(self.capture()[0])
        return self.schedule.due(position)

    def gathers(self, position: Position) -> bool:
        """Tell whether all workers save at `position`, so that they may first bring together a state spread over them."""
        return position.batch == 0 and self.schedule.on_all(position)

    def keep(self, progress: Progress) -> None:
        """Save the live state, of the position in `progress`; mark it for the parameter server before."""
        state, personal = self.capture()
        # the mark stands in the stream behind what the worker has sent for this state
        if self.mark is not None:
            # loss only where there is an evaluation of this very state
            self.mark(progress.position, progress.evaluation.get("Loss") if progress.position.batch == 0 else None)
        self.keeper.keep(progress, personal, state)

    def commits_at(self, position: Position) -> bool:
        """Tell whether `leave` will need a copy of the state at this `position`.

        It needs one of a state that other workers do not have, unless a server remembers: the server's state could not be had
        with it. The live state is the commit otherwise.
        """
        # the server's state at that batch cannot be had any more, and a worker's without it is of no use
        if self.mark is not None or not self.commits.due(self.keeper.batches_before(position)):
            return False
        if self._personal is None:
            # asked once: what makes a state personal does not change within a training
            self._personal = self.capture()[1]
        return self._personal

    def commit(self, progress: Progress) -> None:
        """Copy the live state, of the position in `progress`, in memory."""
        self.commits.take(progress, self.capture()[0])

    def leave(self, progress: Progress) -> None:
        """Save the state after the last whole batch, at `progress`, of a training that ends too early.

        The live state only where all workers have the same, without a server that remembers: the memory of codecs of single
        workers may belong to the batch that broke off already. Of that batch composed codecs have counted no more than that it
        began. Of a state of its own, a worker saves the last commits.
        """
        # a worker's own state is of use only with those of the others at the same position, as commits are taken
        for past, state in self.commits:
            self.keeper.keep(past, True, state, commit=True)
        (arrays, numbers), personal = self.capture()
        # `settled`: the last checkpoint holds this state already
        if personal or self.mark is not None or self.settled(progress.position):
            return
        done = self.keeper.batches_before(progress.position)
        # this state is after `done` batches, of which a codec has counted one more when it began the next
        counted = {name: done if name.endswith(COUNTER) else value for name, value in numbers.items()}
        self.keeper.keep(progress, False, (arrays, counted))

    def settled(self, position: Position) -> bool:
        """Tell whether a state of this `position` or a later one is on the disk, or was refused by it."""
        tried = self.keeper.writer.tried
        return tried is not None and tried >= position

    def close(self) -> None:
        self.keeper.close()


class ServerKeeper:
    """The checkpoints of a parameter server. The workers' marks cut the stream of its messages in two.

    The messages of a worker arrive in order, so its mark stands between those before its checkpoint and those after it.
    Under synchronous types no worker is past a batch that the server has not answered to all: the first mark is the moment.
    Under others the server waits until the last worker has come there; the state also contains the messages that the faster
    workers have sent since.

    Args:
        keeper: copies and saves states.
        bank: codecs of the server.
        staleness: of the sync type: by how many batches a worker may be ahead of the slowest one; 0 for synchronous types.
    """

    def __init__(self, keeper: Keeper, bank: CodecBank, staleness: float) -> None:
        self._keeper = keeper
        self._bank = bank
        # under synchronous types all workers are at the same batch, so the first mark tells it for all
        self._first_counts = staleness == 0
        self._marks: dict[int, Position] = {}
        self._kept = Position(-1, 0)

    def marked(self, node: int, position: Position, loss: float | None, present: Sequence[int]) -> None:
        """Take the mark of a worker, and save the server's state when its moment has come.

        Args:
            node: the worker.
            position: of the worker's checkpoint.
            loss: of the evaluation there; None for none.
            present: the workers that have not left.
        """
        self._marks[node] = position
        moment = position
        if not self._first_counts:
            # of those present: a worker that has left would hold up the checkpoints of the others for ever
            moment = min(self._marks.get(worker, Position(-1, 0)) for worker in {*present, node})
        # once per position, however many workers mark it
        if moment > self._kept:
            self._kept = moment
            evaluation = {} if loss is None else {"Loss": loss}
            # the server's state is personal: no worker's can stand for it
            self._keeper.keep(Progress(moment, evaluation=evaluation), True, server_state(self._bank))

    def close(self) -> None:
        self._keeper.close()


def server_state(bank: CodecBank) -> State:
    return state_of({CODEC: bank.state_dict()})


def keeps_state(kinds: Sequence[type[Codec]]) -> bool:
    """Tell whether any of the codec classes `kinds` remembers something from batch to batch, so that checkpoints need it."""
    return any(issubclass(kind, Remembering) for kind in kinds)
