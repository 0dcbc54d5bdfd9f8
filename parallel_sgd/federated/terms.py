"""Terms of a scheme in the objectives of clients, with the vectors that each client keeps for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from nn.arguments import Configurable
from nn.arrays import Array

__all__ = ["ClientTerm"]


class ClientTerm(Configurable):
    """Term that is added to the objective of each client: its gradient is added to that of every step.

    A subclass defines `gradient`; where clients remember something from one round to the next, it names the vectors in
    `remembers` and defines `remember`. Both are functions of their arguments alone, so that any worker can train any client.
    `configured=True` says that the constructor keeps each argument in an attribute of its name.

    >>> class Proximal(ClientTerm, configured=True):
    ...     def __init__(self, mu):
    ...         self.mu = mu
    ...     def gradient(self, values, start, memory):
    ...         return self.mu * (values - start)
    >>> Proximal(0.5).gradient(np.array([3.0]), np.array([1.0]), {}).tolist()
    [1.0]
    """

    remembers: ClassVar[tuple[str, ...]] = ()
    """Names of the vectors that each client keeps, with a number for each parameter of the model, 0 at first."""

    @abstractmethod
    def gradient(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Array:
        """Return the gradient of the term, of shape (parameters,); nothing that is given may be changed.

        Args:
            values: parameters of the client, of shape (parameters,).
            start: those of the global model from which it began.
            memory: vectors that it keeps, by name.
        """

    def remember(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the vectors that a client keeps after it has trained; default those of before.

        Args:
            values: parameters of the client after its last step, of shape (parameters,).
            start: those of the global model from which it began.
            memory: vectors of before, by name.
        """
        return memory

    def added(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Array:
        """Return the gradient of the term in the type of the parameters.

        Args:
            values: as those of `gradient`.
            start: as that of `gradient`.
            memory: as that of `gradient`.

        Raises: ValueError for a gradient of another shape.
        """
        return self._vector("gradient()", self.gradient(values, start, memory), values)

    def kept(self, values: Array, start: Array, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Return the vectors after training, in the type of the parameters.

        Args:
            values: as those of `remember`.
            start: as that of `remember`.
            memory: as that of `remember`.

        Raises: ValueError for other names than `remembers` has, and for other shapes.
        """
        found = self.remember(values, start, memory)
        if set(found) != set(self.remembers):
            raise ValueError(
                f"{type(self).__name__}.remember() must return the vectors {', '.join(self.remembers)}, got "
                f"{', '.join(map(str, found)) or 'none'}"
            )
        # copied: what is returned may be memory that changes
        return {name: self._vector(f"remember() {name!r}", found[name], values).copy() for name in self.remembers}

    def _vector(self, what: str, found: Array, like: Array) -> Array:
        vector = np.asarray(found, like.dtype)
        if vector.shape != like.shape:
            raise ValueError(
                f"{type(self).__name__}.{what} must have the shape {like.shape} of the parameters, got {vector.shape}"
            )
        return vector
