"""How far training has come, as a model file holds it: epochs, seed, history, and what callbacks remember."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.model.history import History
from nn.model.resumption import CallbackStates, State

if TYPE_CHECKING:
    from nn.model.model import Model

_HISTORY = "history:"
_CALLBACK = "callback:"


def pack_progress(model: Model) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the fields and the tensors of a file. A column of the history is a tensor of (epoch, value) pairs."""
    history, states = model.fit_history(), model.callback_states.current()
    arrays: dict[str, Array] = {}
    for name in history.columns():
        pairs = [(row["epoch"], row[name]) for row in history.rows if name in row]
        arrays[_HISTORY + name] = np.array(pairs, np.float64)
    numbers: dict[str, dict[str, Any]] = {}
    for key, state in states.items():
        numbers[key] = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
        tensors = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
        arrays.update((f"{_CALLBACK}{key}:{name}", value) for name, value in tensors.items())
    return {"epochs": model.epochs_trained, "fit_seed": history.seed, "callbacks": numbers}, arrays


def take_progress(model: Model, config: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Take fields and tensors out of a file and give them to the model; raise ValueError naming what is wrong."""
    model.epochs_trained = arguments.integer("model file", "epochs", config["epochs"], minimum=0)
    if config["fit_seed"] is not None:
        model.fit_history().seed = arguments.integer("model file", "fit_seed", config["fit_seed"], minimum=0)
    _take_history(model.fit_history(), arrays)
    model.callback_states = CallbackStates(_take_states(config["callbacks"], arrays))


def _take_history(history: History, arrays: dict[str, Array]) -> None:
    rows: dict[int, dict[str, float]] = {}
    columns = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_HISTORY)}
    for name, pairs in columns.items():
        if pairs.dtype != np.float64 or pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"'{name[:80]}' must hold pairs of epoch and value, got {pairs.dtype} of shape {pairs.shape}")
        for epoch, value in pairs.tolist():
            if not (1 <= epoch <= 2**53 and epoch == int(epoch)):
                raise ValueError(f"'{name[:80]}' must count epochs from 1, got {epoch}")
            rows.setdefault(int(epoch), {})[name.removeprefix(_HISTORY)] = value
    for epoch in sorted(rows):
        rows[epoch].pop("epoch", None)
        history.add(epoch, rows[epoch])


def _take_states(numbers: object, arrays: dict[str, Array]) -> dict[str, State]:
    if not isinstance(numbers, dict) or not all(isinstance(state, dict) for state in numbers.values()):
        raise ValueError(f"'callbacks' must hold the states of callbacks, got {str(numbers)[:80]}")
    states: dict[str, State] = {}
    for key, state in numbers.items():
        if not all(type(value) in (bool, int, float) for value in state.values()):
            raise ValueError(f"the state of the callback {key[:80]!r} must hold numbers, got {str(state)[:80]}")
        prefix = f"{_CALLBACK}{key}:"
        own = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
        states[key] = {**state, **own}
    return states
