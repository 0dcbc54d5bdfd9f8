"""One variable on a parameter server that applies gradients as they arrive, and what is known of its readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from nn.gradient_descent.interface import IGradientDescent

from .interfaces import Array

_RULE = "rule."


class ServedVariable:
    """The parameters w of one variable; every gradient is a step of `rule`.

    The staleness tau of a gradient is the number of gradients applied since its worker read w; `staleness` counts the taus.
    With `aware` each change is divided by tau + 1 (Zhang et al., "Staleness-aware async-SGD", IJCAI 2016). Memory beside w and
    the rule's: what each worker has read last, which is also what is on its way to it.
    """

    def __init__(self, start: Array, workers: Iterable[int], rule: IGradientDescent, aware: bool = False) -> None:
        self.value = start.copy()
        self.staleness: Counter[int] = Counter()
        self.rule = rule
        rule.partition([start.size])
        self._aware = aware
        self._applied = 0
        self._seen = dict.fromkeys(workers, 0)  # the gradients applied when a worker read
        self._read = {node: start.copy() for node in self._seen}
        self._change = np.empty(start.size if aware else 0, start.dtype)

    def apply(self, node: int, gradient: Array, compensate: Callable[[Array, Array, Array], Array] | None = None) -> None:
        """Change w by the gradient that `node` computed with what it read last.

        `compensate(gradient, w, what the worker read)`, on flat arrays, gives what is applied in place of a stale gradient.
        """
        tau = self._applied - self._seen[node]
        self.staleness[tau] += 1
        self._applied += 1
        value, flat = self.value.reshape(-1), gradient.reshape(-1)
        if compensate is not None:
            flat = compensate(flat, value, self._read[node].reshape(-1))
        if not self._aware or tau == 0:
            self.rule.update(value, flat)
            return
        self.rule.delta(value, flat, self._change)
        np.divide(self._change, tau + 1, out=self._change)
        np.add(value, self._change, out=value)

    def read(self, node: int) -> Array:
        """What `node` gets: w as it is now; unchanged until it reads again."""
        copy = self._read[node]
        np.copyto(copy, self.value)
        self._seen[node] = self._applied
        return copy

    def state_dict(self) -> dict[str, Any]:
        """All that decides how it goes on, live."""
        state: dict[str, Any] = {"value": self.value, "applied": self._applied}
        for node, seen in self._seen.items():
            state[f"seen.{node}"], state[f"read.{node}"] = seen, self._read[node]
        state |= {f"tau.{tau}": count for tau, count in self.staleness.items()}
        return state | {f"{_RULE}{name}": value for name, value in self.rule.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned.

        Raises: ValueError where names or shapes do not fit.
        """
        needed = {"value", "applied", *(f"{name}.{node}" for name in ("seen", "read") for node in self._seen)}
        arrays = [name for name in needed if name.startswith(("value", "read"))]
        if not needed <= state.keys() or any(np.shape(state[name]) != self.value.shape for name in arrays):
            raise ValueError(f"ServedVariable state must hold {', '.join(sorted(needed))}, arrays of shape {self.value.shape}")
        np.copyto(self.value, state["value"])
        self._applied = int(state["applied"])
        for node in self._seen:
            self._seen[node] = int(state[f"seen.{node}"])
            np.copyto(self._read[node], state[f"read.{node}"])
        self.staleness.clear()
        self.staleness.update({int(name[4:]): int(count) for name, count in state.items() if name.startswith("tau.")})
        self.rule.load_state_dict({name[len(_RULE) :]: value for name, value in state.items() if name.startswith(_RULE)})
