"""State that decides how training goes on, as live arrays and numbers, and the way back; the start of a node that resumes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nn.arrays import Array
from nn.model import Model
from nn.optimizer import IOptimizer
from nn.registry import CustomObjects
from parallel_sgd.engine.batches import FIXED, Batches
from parallel_sgd.record.table import Earlier

from ..engine.progress import NOBODY, START, Part, Position, Progress
from .snapshot import (
    CALLBACK,
    CLIENT,
    CODEC,
    EARLIER,
    OPTIMIZER,
    VALUE,
    CheckpointError,
    Snapshot,
    differences,
    number_of,
    versions,
)

if TYPE_CHECKING:
    from nn.dataset.plan.plan import Plan
    from parallel_sgd.batch_sync.sync.interface import ISyncType
    from parallel_sgd.codec.bank import CodecBank

State = tuple[dict[str, Array], dict[str, Any]]
COUNTER = ".batches"  # the batches that composed codecs count on all workers alike


def state_of(parts: Mapping[str, Mapping[str, Any]]) -> State:
    """Return the arrays, live, and the numbers of several parts, by `<part>/<name>`.

    Raises: TypeError for a value that can be neither.
    """
    arrays: dict[str, Array] = {}
    numbers: dict[str, Any] = {}
    for part, state in parts.items():
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                arrays[f"{part}/{name}"] = value
            else:
                numbers[f"{part}/{name}"] = number_of(f"{part}/{name}", value)
    return arrays, numbers


def worker_state(
    model: Model,
    optimizer: IOptimizer,
    bank: CodecBank,
    callbacks: Mapping[str, Any],
    clients: Mapping[str, Any] = MappingProxyType({}),
    earlier: Mapping[str, Any] = MappingProxyType({}),
) -> State:
    """Return all values of the model, the memory of optimizer, codecs, callbacks and clients, and models of earlier rounds.

    Random numbers have no state: each is drawn from (seed, epoch, batch, block) and its purpose.
    """
    # everything: buffers, too, such as the running means of normalisation
    values = {variable.name: variable.value for variable in model.store.everything}
    memories = {OPTIMIZER: optimizer.state_dict(), CODEC: bank.state_dict(), CALLBACK: callbacks}
    memories |= {CLIENT: clients, EARLIER: earlier}
    return state_of({VALUE: values, **memories})


def is_personal(state: State, optimizer: IOptimizer, bank: CodecBank, sync: ISyncType) -> bool:
    """Tell whether other workers have another state at the same position.

    They have where results differ between workers, where the optimizer keeps something for the worker's own blocks, where
    codecs remember values that a worker has not sent yet, and where each has the slots of its own shard only. The memory of
    callbacks and clients, and models of earlier rounds, are the same on all workers.
    """
    arrays, numbers = state
    size, rule = optimizer.store.values.size, f"{OPTIMIZER}/rule:"
    # values are common as long as results are (`is_common`); callbacks decide by equal results
    common = tuple([f"{part}/" for part in (VALUE, CALLBACK, CLIENT, EARLIER)])
    mine = [name for name in (*arrays, *numbers) if not name.startswith(common)]
    for name in mine:
        if name.startswith(rule):
            # slots of a rule that are not as long as the model are those of one shard
            if name in arrays and arrays[name].size != size:
                return True
        # a count of batches is the same on all workers
        elif not (name.endswith(COUNTER) or (name.startswith(f"{CODEC}/") and bank.has_in_common(name.partition("/")[2]))):
            return True
    return not is_common(optimizer, bank, sync)


def is_common(optimizer: IOptimizer, bank: CodecBank, sync: ISyncType) -> bool:
    """Tell whether every batch has one result, merged out of its blocks, that all apply; else each worker has its own model."""
    # `by_block`: the optimizer puts each block's own gradient, so that the result has all blocks
    return sync.staleness == 0 and all(codec.traits.agrees for codec in bank.codecs) and getattr(optimizer, "by_block", False)


def check_values(model: Model, snapshot: Snapshot) -> None:
    """Check that a snapshot holds the values of such a model.

    Raises: CheckpointError naming the variable, the expectation and the value in the snapshot.
    """
    # popped as they are found, so that what remains is what the model lacks
    found = snapshot.part(VALUE)
    for variable in model.store.everything:
        value = found.pop(variable.name, None)
        expected = f"{variable.value.dtype} of shape {variable.shape}"
        if value is None:
            raise CheckpointError(f"Variable '{variable.name}' must be {expected}, but the checkpoint does not have it")
        if not isinstance(value, np.ndarray) or (value.shape, value.dtype) != (variable.shape, variable.value.dtype):
            got = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
            raise CheckpointError(f"Variable '{variable.name}' must be {expected}, the checkpoint has {got}")
    if found:
        raise CheckpointError(f"The checkpoint has the variable '{next(iter(found))}', which the model does not have")


def restore_values(model: Model, snapshot: Snapshot) -> None:
    """Give the model the values of a snapshot, in place.

    Raises: CheckpointError as `check_values`; the model is unchanged then.
    """
    check_values(model, snapshot)
    values = snapshot.part(VALUE)
    for variable in model.store.everything:
        np.copyto(variable.value, values[variable.name])


class ModelFile:
    """The model of the newest checkpoint as a file of its own; `content` is a model file of the same structure.

    Args:
        content: of a model file of the same structure.
        custom_objects: classes of a user's own, by name.
        path: of the file.
        inputs: the plan of columns that the model gets.
    """

    def __init__(self, content: bytes, custom_objects: CustomObjects, path: Path, inputs: Plan | None = None) -> None:
        self._inputs = inputs
        self._content, self._custom_objects = content, custom_objects
        self._path = path
        self._model: Model | None = None

    def save(self, snapshot: Snapshot) -> None:
        """Write it, in place of an older one, which is there until then.

        Raises: OSError when the disk refuses.
        """
        # made at the first checkpoint, in the writer's thread: jobs without one need no second model
        if self._model is None:
            self._model = Model.from_bytes(self._content, self._custom_objects)
            self._model.inputs = self._inputs
        # the copy in memory, not the live model, which trains on meanwhile
        restore_values(self._model, snapshot)
        self._model.save(self._path)


def restore_optimizer(optimizer: IOptimizer, snapshot: Snapshot, whole: bool) -> bool:
    """Give the optimizer its state; not `whole`, only that of the rule, and return False where that is one of a single shard.

    Raises: CheckpointError when it is the state of another optimizer or rule.
    """
    state = snapshot.part(OPTIMIZER)
    if not whole:
        state = {name: value for name, value in state.items() if name.startswith("rule:")}
        size = optimizer.store.values.size
        # slots of a shard have another length: without all shards the rule begins afresh
        if any(isinstance(value, np.ndarray) and value.shape != (size,) for value in state.values()):
            return False
    kind, rule = type(optimizer).__name__, type(optimizer.rule).__name__
    # slots of one rule mean something else to another, and may have the same names
    if snapshot.header.rule != rule:
        raise CheckpointError(f"The rule must be {rule}, the checkpoint has the state of {snapshot.header.rule}")
    sizes = {value.size for name, value in state.items() if name.startswith("rule:") and isinstance(value, np.ndarray)}
    trained = optimizer.store.values.size
    if not optimizer.by_shard and sizes - {trained}:
        raise CheckpointError(
            f"The model trains {trained} parameters, the checkpoint has the state of {rule} for {sizes.pop()}: layers were "
            "frozen or thawed since; train the model of that run in a job of its own"
        )
    try:
        optimizer.load_state_dict(state)
    except ValueError as error:
        raise CheckpointError(f"The checkpoint of {snapshot.header.optimizer} does not suit {kind}: {error}") from error
    return True


def restore_codecs(bank: CodecBank, snapshot: Snapshot) -> None:
    """Give the codecs their memory; the count of batches only to codecs that count: a job that names no codec may have
    another codec, with the same bits, on another number of workers.

    Raises: CheckpointError when it is the memory of other codecs.
    """
    counting = bank.state_dict()
    state = {name: value for name, value in snapshot.part(CODEC).items() if name in counting or not name.endswith(COUNTER)}
    try:
        bank.load_state_dict(state)
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"The checkpoint's codecs do not suit the job's: {error}") from error


@dataclass(frozen=True)
class Resumption:
    """A snapshot from which a node goes on.

    Args:
        snapshot: the state.
        whole: whether codecs and optimizers take their memory of single workers from it too, so that the bits are those of an
            undisturbed run.
        tables: folder of the tables that the node has reported before; None: there is none here.
        others: folders of tables that no node continues, and this one carries on.

    Attributes: `position` of the snapshot; `owner`, the node of the state.
    """

    snapshot: Snapshot
    whole: bool
    tables: Path | None = None
    others: Sequence[Path] = ()

    @property
    def position(self) -> Position:
        return self.snapshot.header.position

    @property
    def owner(self) -> int:
        return self.snapshot.header.node

    def progress(self, batches: Batches, blocks: Collection[int], job: str = "") -> Progress:
        """Return the progress of a worker up to this position; the owner of the state may have had more or fewer blocks.

        Args:
            batches: of the data of this job.
            blocks: the blocks of the worker.
            job: id of this job; where the snapshot is of another job, the attempts of its history count on.
        """
        header = self.snapshot.header
        done = header.position.epoch * header.batches + header.position.batch
        # block steps of this worker's own blocks, as if it had had them from the beginning; tails have idle blocks
        steps = done * len(blocks) - header.position.epoch * batches.idle(blocks)
        given = header.progress
        history = given.history.of_job(header.job == job)
        return Progress(given.position, steps, given.seconds, given.evaluation, history)

    def parts(self, batches: Batches, dealt: Collection[Collection[int]]) -> list[Part]:
        """Return the parts of the training, with that which begins here, up to the last.

        Args:
            batches: of the data of this job.
            dealt: the blocks of each of its workers.
        """
        header, position = self.snapshot.header, self.position
        known = [part for part in (Part(*each) for each in header.parts or ()) if part.position < position]
        if not known and position > START:
            count = 1 + max(block for blocks in header.blocks for block in blocks)
            steps, last = Batches(header.samples, header.batch_size // count, count).steps(header.blocks)
            # of an earlier release: there may have been others before, and states that were lost
            known = [Part(steps, *START, last, 0 if header.parts is None else header.workers)]
        steps, last = batches.steps(dealt)
        return [*known, Part(steps, *position, last, len(dealt), NOBODY if self.whole else self.owner)]

    def earlier(self) -> Earlier | None:
        # rows after the position are cut from the tables that the next part continues
        return Earlier(self.tables, self.position, self.others) if self.tables or self.others else None

    def check_clients(self, clients: str) -> None:
        """Check that the job has the population of clients of the snapshot.

        Args:
            clients: identity of the population of this job; "" where it has none.

        Raises: CheckpointError naming both.
        """
        was = self.snapshot.header.clients
        if was != clients:
            raise CheckpointError(
                f"The checkpoint is of a job with {was or 'no clients'}, so the job must have these too, got "
                f"{clients or 'no clients'}; a training of its own begins from the model of that run"
            )

    def check(self, batches: Batches, order: str, seed: int, epochs: int) -> None:
        """Check that the job goes on from there, and that a position within an epoch means the same samples in it.

        Args:
            batches: of the data of this job.
            order: name of the order in which this job deals samples.
            seed: of this job.
            epochs: number of epochs of this job.

        Raises: CheckpointError naming the number that does not fit.
        """
        header = self.snapshot.header
        check_epochs(header.position, epochs)
        # between two epochs the order begins anew, so other data or another batch size does no harm
        if not header.position.batch:
            return
        was, now = (header.samples, header.batch_size), (batches.samples, batches.batch_size)
        if was != now:
            raise CheckpointError(
                f"The checkpoint is from the middle of an epoch of {was[0]} samples in batches of {was[1]}, so the job must "
                f"have these too, got {now[0]} in batches of {now[1]}; take one from the end of an epoch"
            )
        # the order is a function of (seed, epoch): in the middle of one the rest must be dealt by the same seed
        if header.order != order or (order != FIXED and header.seed != seed):
            raise CheckpointError(
                f"The checkpoint is from the middle of an epoch, whose samples are {_dealt(header.order, header.seed)}, so the "
                f"job must have that order too, got {_dealt(order, seed)}; take one from the end of an epoch"
            )

    def remarks(self, seed: int) -> list[str]:
        """Describe the differences, of `seed` and versions, by which the bits may not be those of an undisturbed run."""
        header, now = self.snapshot.header, versions()
        found = []
        if header.seed != seed:
            found.append(
                f"The checkpoint is of a job with seed {header.seed}, this one has {seed}: other random numbers follow."
            )
        others = differences(header.versions, now)
        if others:
            found.append(f"The checkpoint was made with {', '.join(others)}: the last bits may differ.")
        return found


def check_epochs(position: Position, epochs: int) -> None:
    """Check that a job of so many epochs goes on from this position, or is done there.

    Args:
        position: of the checkpoint.
        epochs: number of epochs of the job.

    Raises: CheckpointError naming the number that does not fit.
    """
    least = position.epoch + bool(position.batch)
    if least > epochs:
        raise CheckpointError(f"The checkpoint is after {position}, so 'epoch' must be at least {least}, got {epochs}")


def _dealt(order: str, seed: int) -> str:
    return order if order == FIXED else f"{order} by seed {seed}"
