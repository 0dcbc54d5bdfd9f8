"""Runs a part of a model, forward and backward as two steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.arrays import Array
from nn.model.runner import Runner
from nn.operation import Mode
from nn.plan import OnGradient, Plan


class FragmentRunner(Runner):
    """Computes results, gradients of the variables, and the gradient of the input, of a part of a graph."""

    _open: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is open, too."""
        return {**super().__getstate__(), "_open": None}

    def forward(self, x: Array, key: tuple[int, ...]) -> Array:
        """Compute the output in training, for a `backward` that follows."""
        self._open = self._compile("forward", x.shape).plan
        return self._open.forward(x, Mode(training=True, key=key))

    def backward(self, gradient: Array, on_gradient: OnGradient | None) -> None:
        """Compute all gradients from that of the output; raise ValueError unless it fits a `forward` just before."""
        if self._open is None:
            raise ValueError("backward() needs a forward() just before, with the samples that the gradient belongs to")
        target = self._open.output_gradient
        if gradient.shape != target.shape:
            raise ValueError(f"backward() 'gradient' must have the shape {target.shape} of the output, got {gradient.shape}")
        np.copyto(target, gradient, casting="same_kind")
        self._open.backward(on_gradient)
        self._last, self._open = self._open, None

    def input_gradient(self) -> Array:
        """Return the gradient of the input, of the last `step` or `backward`; raise ValueError before one."""
        if self._last is None or self._last.input_gradient is None:
            raise ValueError("there is no gradient of the input yet; call compute_gradients() or backward() first")
        return self._last.input_gradient
