"""What a gradient-descent rule is: from gradients to the change of the parameters."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, empty, zeros
from nn.configurable import Configurable

CHUNK = 32 * 1024
"""Elements handled at a time: parameters, gradients, two slots and a scratch array of this size stay in L2."""


class IGradientDescent(Configurable, ABC):
    """A rule on flat vectors. Its state is plain arrays and numbers, which `state_dict` returns.

    A subclass names its arrays (one number per parameter) in `slots`, computes the numbers of a step in `begin_step`, and
    the increment of one chunk in `increment`.
    """

    slots: ClassVar[tuple[str, ...]] = ()

    def __init__(self, learn_rate: float) -> None:
        self.learn_rate = arguments.number(self, "learn_rate", learn_rate, 0)
        self.step = 0
        self._slots: dict[str, Array] = {}
        self._scratch: Array = np.empty(0)

    def update(self, parameters: Array, gradients: Array) -> None:
        """Change `parameters` in place by one step. Both are vectors of equal length, the same length at every call."""
        self._begin(parameters, gradients)
        for start in range(0, len(gradients), CHUNK):
            part = slice(start, start + CHUNK)
            gradient = gradients[part]
            change = self._scratch[: len(gradient)]
            self.increment(gradient, change, *(slot[part] for slot in self._slots.values()))
            value = parameters[part]
            np.add(value, change, out=value)

    def delta(self, gradients: Array, out: Array) -> None:
        """Write the increment of one step into `out`: `update` is `parameters += delta`, bit for bit."""
        self._begin(out, gradients)
        for start in range(0, len(gradients), CHUNK):
            part = slice(start, start + CHUNK)
            self.increment(gradients[part], out[part], *(slot[part] for slot in self._slots.values()))

    def begin_step(self) -> None:
        """Compute what all chunks of this step share; `self.step` counts from 1."""

    @abstractmethod
    def increment(self, gradient: Array, out: Array, *slots: Array) -> None:
        """Write the increment of one chunk into `out` and change its slots, given in the order of `slots`, in place."""

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the live state: the step count and the slots."""
        return {"step": self.step, **self._slots}

    def load_state_dict(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over a copy of a state that `state_dict` returned; `{"step": 0}` starts afresh.

        Raises ValueError where names or lengths do not fit.
        """
        names = set(state) - {"step"}
        fresh = not names and state.get("step") == 0
        if "step" not in state or (names != set(self.slots) and not fresh):
            expected, got = ", ".join(("step", *self.slots)), ", ".join(sorted(state)) or "nothing"
            raise ValueError(f"{type(self).__name__} state must hold {expected}; got {got}")
        step = arguments.integer(self, "step", state["step"], minimum=0)
        given = {name: np.asarray(state[name]) for name in self.slots if name in names}
        if len({slot.shape for slot in given.values()}) > 1 or any(slot.ndim != 1 for slot in given.values()):
            raise ValueError(f"{type(self).__name__} state must hold vectors of one length")
        self.step = step
        self._slots = {name: empty(slot.shape, slot.dtype) for name, slot in given.items()}
        for name, slot in self._slots.items():
            np.copyto(slot, given[name])

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"learn_rate": self.learn_rate}

    def _begin(self, vector: Array, gradients: Array) -> None:
        if vector.ndim != 1 or vector.shape != gradients.shape:
            raise ValueError(
                f"{type(self).__name__} takes two vectors of equal length, got shapes {vector.shape} and {gradients.shape}"
            )
        if not self._slots:
            self._slots = {name: zeros(vector.shape, vector.dtype) for name in self.slots}
        for slot in self._slots.values():
            if slot.shape != vector.shape or slot.dtype != vector.dtype:
                raise ValueError(
                    f"{type(self).__name__} holds state for {len(slot)} parameters of {slot.dtype}, "
                    f"got {len(vector)} of {vector.dtype}"
                )
        if self._scratch.dtype != vector.dtype or not self._scratch.size:
            self._scratch = empty((CHUNK,), vector.dtype)
        self.step += 1
        self.begin_step()
