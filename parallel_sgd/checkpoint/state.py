"""What decides how training goes on, as live arrays and numbers, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.model import Model
from nn.optimizer import IOptimizer
from parallel_sgd.batch_sync import ISyncType
from parallel_sgd.codec.bank import CodecBank

from .snapshot import CODEC, OPTIMIZER, VALUE, CheckpointError, Snapshot, number_of

Array = NDArray[Any]
State = tuple[dict[str, Array], dict[str, Any]]
COUNTER = ".batches"  # what composed codecs count on all workers alike


def state_of(parts: Mapping[str, Mapping[str, Any]]) -> State:
    """Arrays, live, and numbers of several parts, by `<part>/<name>`.

    Raises: TypeError for what can be neither.
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


def worker_state(model: Model, optimizer: IOptimizer, bank: CodecBank) -> State:
    """All values of the model, and what optimizer and codecs remember.

    Random numbers have no state: each is drawn from (seed, epoch, batch, block) and its purpose.
    """
    values = {variable.name: variable.value for variable in model.store.everything}
    return state_of({VALUE: values, OPTIMIZER: optimizer.state_dict(), CODEC: bank.state_dict()})


def is_personal(state: State, optimizer: IOptimizer, bank: CodecBank, sync: ISyncType) -> bool:
    """Whether other workers have another state at the same position.

    They have where results differ between workers, where the optimizer keeps something for the worker's own blocks, where
    codecs remember what a worker has not sent yet, and where each has the slots of its own shard only.
    """
    arrays, numbers = state
    size, rule = optimizer.store.values.size, f"{OPTIMIZER}/rule:"
    mine = [name for name in (*arrays, *numbers) if not name.startswith(f"{VALUE}/")]
    for name in mine:
        if name.startswith(rule):
            if name in arrays and arrays[name].size != size:
                return True
        elif not name.endswith(COUNTER):
            return True
    return not is_common(optimizer, bank, sync)


def is_common(optimizer: IOptimizer, bank: CodecBank, sync: ISyncType) -> bool:
    """Whether every batch has one result, merged out of its blocks, that all apply; else each worker has a model of its own."""
    return sync.staleness == 0 and all(codec.agrees for codec in bank.codecs) and getattr(optimizer, "by_block", False)


def check_values(model: Model, snapshot: Snapshot) -> None:
    """Check that a snapshot holds the values of such a model.

    Raises: CheckpointError naming the variable, the expectation and what is there.
    """
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
    """The model of the newest checkpoint as a file of its own, at `path`; `content` is a model file of the same structure."""

    def __init__(self, content: bytes, custom_objects: Mapping[str, type[Any]], path: Path) -> None:
        self._content, self._custom_objects = content, custom_objects
        self._path = path
        self._model: Model | None = None

    def save(self, snapshot: Snapshot) -> None:
        """Write it, in place of an older one, which is there until then.

        Raises: OSError when the disk refuses.
        """
        if self._model is None:
            self._model = Model.from_bytes(self._content, self._custom_objects)
        restore_values(self._model, snapshot)
        self._model.save(self._path)


def restore_optimizer(optimizer: IOptimizer, snapshot: Snapshot, whole: bool) -> bool:
    """Give the optimizer its state; not `whole`, only that of the rule, and False where that is one of a single shard.

    Raises: CheckpointError when it is the state of another one.
    """
    state = snapshot.part(OPTIMIZER)
    if not whole:
        state = {name: value for name, value in state.items() if name.startswith("rule:")}
        size = optimizer.store.values.size
        if any(isinstance(value, np.ndarray) and value.shape != (size,) for value in state.values()):
            return False
    kind, rule = type(optimizer).__name__, type(optimizer.rule).__name__
    if snapshot.header.rule != rule:
        raise CheckpointError(f"The rule must be {rule}, the checkpoint has the state of {snapshot.header.rule}")
    try:
        optimizer.load_state_dict(state)
    except ValueError as error:
        raise CheckpointError(f"The checkpoint of {snapshot.header.optimizer} does not suit {kind}: {error}") from error
    return True


def restore_codecs(bank: CodecBank, snapshot: Snapshot) -> None:
    """Give the codecs what they remembered.

    Raises: CheckpointError when they are others.
    """
    try:
        bank.load_state_dict(snapshot.part(CODEC))
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"The checkpoint's codecs do not suit the job's: {error}") from error
