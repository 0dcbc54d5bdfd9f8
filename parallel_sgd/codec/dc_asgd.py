"""Asynchronous SGD with delay compensation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nn import arguments
from nn.gradient_descent.fading import forget_faded_squares
from parallel_sgd.node_ids import Parameter_Server

from .async_ps import AsyncPS
from .interfaces import Array
from .served_variable import ServedVariable
from .settings import GlobalSettings

CHUNK: Final = 32 * 1024
EPSILON: Final = 1e-7
_MEAN_SQUARE = "mean_square"


class DCASGD(AsyncPS):
    """AsyncPS that corrects a stale gradient towards the one at the present parameters (Zheng et al., "Asynchronous
    stochastic gradient descent with delay compensation", ICML 2017):

        w <- w + rule(g + lambda_t g g (w - w_i)),  with w_i = what worker i read last, products by element,

    a Taylor expansion around w_i in which lambda_t g g stands for the Hessian's diagonal. `codec_extra_parameters`:
    "adaptive" (True): lambda_t = lambda / sqrt(MS + 1e-7) with MS <- ms MS + (1 - ms) g g, by element; else lambda_t = lambda;
    "lambda" (2.0, or 0.04 where not adaptive), at least 0; "ms" (0.95), from 0 to below 1. lambda = 0 is AsyncPS, and one
    worker alone trains as with the rule itself, for any lambda.

    Everything else is as with AsyncPS. Memory of the server: 4n more.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        adaptive = bool(GlobalSettings.get_params("adaptive", True))
        given = GlobalSettings.get_params("lambda", 2.0 if adaptive else 0.04)
        self._lambda = arguments.number(self, "lambda", given, 0)
        self._decay = arguments.number(self, "ms", GlobalSettings.get_params("ms", 0.95), 0, 1) if adaptive else None
        self._mean_square: Array | None = None
        self._corrections = 0
        self._compensated: Array = np.empty(0)
        self._scratch: Array = np.empty(0)

    def apply(self, served: ServedVariable, node: int, gradient: Array) -> None:
        """Change the parameters by the compensated gradient of `node`."""
        if self._compensated.size != gradient.size:
            self._compensated = np.empty(gradient.size, gradient.dtype)
            self._scratch = np.empty(min(gradient.size, CHUNK), gradient.dtype)
        served.apply(node, gradient, self._compensate if self._lambda else None)

    def _compensate(self, gradient: Array, present: Array, read: Array) -> Array:
        """g + lambda_t g g (w - w_i), on flat arrays."""
        if self._decay is not None and self._mean_square is None:
            self._mean_square = np.zeros(gradient.size, gradient.dtype)
        result = self._compensated
        # counted afresh after a restart: what is forgotten changes no bit
        self._corrections += 1
        for start in range(0, gradient.size, CHUNK):
            part = slice(start, start + CHUNK)
            g, out = gradient[part], result[part]
            square = np.multiply(g, g, out=self._scratch[: g.size])
            np.subtract(present[part], read[part], out=out)
            np.multiply(out, square, out=out)
            np.multiply(out, self._lambda, out=out)
            if self._mean_square is not None and self._decay is not None:
                mean = self._mean_square[part]
                np.multiply(square, 1 - self._decay, out=square)
                np.multiply(mean, self._decay, out=mean)
                np.add(mean, square, out=mean)
                forget_faded_squares(self._corrections, self._decay, mean)
                np.add(mean, EPSILON, out=square)
                np.divide(out, np.sqrt(square, out=square), out=out)
            np.add(out, g, out=out)
        return result

    def state_dict(self) -> dict[str, Any]:
        """That of AsyncPS, and MS on the server."""
        own = {} if self._mean_square is None else {_MEAN_SQUARE: self._mean_square}
        return super().state_dict() | own

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned.

        Raises: ValueError where names or shapes do not fit.
        """
        super().load_state_dict({name: value for name, value in state.items() if name != _MEAN_SQUARE})
        if _MEAN_SQUARE in state and self.node_id == Parameter_Server:
            self._mean_square = np.array(state[_MEAN_SQUARE])

    def dispose(self) -> None:
        """Let go of all arrays."""
        super().dispose()
        self._mean_square = None
        self._compensated = self._scratch = np.empty(0)
