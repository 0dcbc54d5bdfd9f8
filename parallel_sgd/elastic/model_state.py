"""A state with a model in it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.model import Model

from .object_state import Content, ObjectState


class ModelState(ObjectState):
    """A model and values by name.

    Of the model it carries the weights, trained and not, the statistics of its layers, the state of its rule and optimizer, a
    learning rate that is a number, its history, and its counters. `model` and `model.store` stay the objects they are.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> state = ModelState(model, batch=0)
    >>> model.store.values[:] = 9
    >>> state.restore()
    >>> bool((model.store.values == 9).any())
    False

    Raises: TypeError for what is no model, ValueError for one without variables yet, or a name that the state itself uses.
    """

    model: Model

    def __init__(self, model: Model, **values: Any) -> None:
        arguments.instance(self, "model", model, Model)
        if not model.built:
            raise ValueError("ModelState 'model' must have its variables; give it an input_shape and call setup() first")
        self.model = model
        super().__init__(**values)

    def _copy(self, into: Content) -> Content:
        # fresh memory for the weights would cost more than copying them
        return {**super()._copy(into), "model": _copied(self._live(), into.get("model", {}))}

    def _put(self, saved: Content) -> None:
        self._load(saved["model"])
        super()._put(saved)

    def _check(self, theirs: Content) -> None:
        super()._check(theirs)
        mine, model = self._live(), theirs.get("model", {})
        for name in ("values", "buffers"):
            if name not in model or not _alike(model[name], mine[name]):
                raise ValueError(
                    f"ModelState must hold the same model on all workers: its {name} are {mine[name].size} of "
                    f"{mine[name].dtype} here, rank 0 has others"
                )

    def _live(self) -> dict[str, Any]:
        model, store = self.model, self.model.store
        live: dict[str, Any] = {"values": store.values, "buffers": store.buffer_values}
        live.update((f"fixed:{number}", variable.value) for number, variable in enumerate(store.fixed))
        if model.rule is not None:
            live.update((f"optimizer:{name}", value) for name, value in model.optimizer.state_dict().items())
            if model.rule.schedule is None:
                live["learn_rate"] = model.rule.learn_rate
        history = model.fit_history()
        live["history"], live["history_seed"] = history.rows, history.seed
        live["epochs_trained"] = model.epochs_trained
        live["seed"], live["keyless_calls"] = model.seed, model.keyless_calls  # what random numbers are keyed by
        return live

    def _load(self, content: dict[str, Any]) -> None:
        model, store = self.model, self.model.store
        np.copyto(store.values, content["values"])
        np.copyto(store.buffer_values, content["buffers"])
        for number, variable in enumerate(store.fixed):
            np.copyto(variable.value, content[f"fixed:{number}"])
        if model.rule is not None:
            prefix = "optimizer:"
            state = {name[len(prefix) :]: value for name, value in content.items() if name.startswith(prefix)}
            model.optimizer.load_state_dict(state)
            if "learn_rate" in content:
                model.rule.learn_rate = content["learn_rate"]
        history = model.fit_history()
        history.rows, history.seed = copy.deepcopy(content["history"]), content["history_seed"]
        model.epochs_trained = content["epochs_trained"]
        model.seed, model.keyless_calls = content["seed"], content["keyless_calls"]


def _copied(live: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """A deep copy of `live`, whose arrays take the memory of those in `last` where these fit."""
    copies: dict[str, Any] = {}
    for name, value in live.items():
        place = last.get(name)
        if isinstance(value, np.ndarray) and isinstance(place, np.ndarray) and _alike(place, value):
            np.copyto(place, value)
            copies[name] = place
        else:
            copies[name] = copy.deepcopy(value)
    return copies


def _alike(one: Array, other: Array) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)
