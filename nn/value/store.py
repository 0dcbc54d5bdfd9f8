"""Memory of the variables of a model: one vector of values, one of gradients, the same for its buffers, and others alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nn.arrays import Array, zeros
from nn.initializer import Initializer, Zeros
from nn.random import keyed
from nn.value.value import Variable


class VariableStore:
    """Store of all trainable variables in one contiguous vector and their gradients in another, in the order of their ids.

    So a rule updates a whole model in a few array operations and a checkpoint is one write. Statistics that operations keep
    (`buffers`) lie in a vector of their own, beside one of the changes that the last block wants. Variables that are neither
    trained nor statistics (`fixed`) have an array of their own each.

    Args:
        variables: the trained ones, in the order of their ids.
        others: buffers and fixed ones.
        dtype: type of all arrays, float32 or float64.
        seed: seed of the first values.
    """

    def __init__(self, variables: Sequence[Variable], others: Sequence[Variable], dtype: np.dtype[Any], seed: int) -> None:
        self.dtype = dtype
        self.variables = list(variables)
        self.buffers = [variable for variable in others if isinstance(variable, Buffer)]
        self.fixed = [variable for variable in others if not isinstance(variable, Buffer)]
        self._others = list(others)
        self._allocate()
        self.initialize(seed)

    @property
    def everything(self) -> list[Variable]:
        """All variables: those that are trained, then the others in the order of their first use."""
        return [*self.variables, *self._others]

    def apply_changes(self) -> None:
        """Add the changes of the last block, or those written to `buffer_changes` since, to the buffers. Once per batch.

        It ends an update of the parameters, so those with a constraint are brought back here.
        """
        if self.buffers:
            # In one pass over all buffers, which lie in one vector.
            np.add(self.buffer_values, self.buffer_changes, out=self.buffer_values)
        for variable in self.variables:
            if variable.constraint is not None:
                variable.constraint.project(variable.value)

    def initialize(self, seed: int) -> None:
        """Draw the first values, keyed by the seed and the variable's place; gradients become 0."""
        # By its place, so that the draw of one does not depend on the shapes of those before.
        for place, variable in enumerate(self.everything):
            variable.set_value(variable.initializer(variable.shape, keyed(seed, "initialize", place)))
        self.gradients[:] = 0
        self.buffer_changes[:] = 0

    def _allocate(self) -> None:
        """Make the vectors, of zeros, and give every variable its part."""
        self.values, self.gradients = _bind(self.variables, self.dtype, range(len(self.variables)))
        self.buffer_values, self.buffer_changes = _bind(self.buffers, self.dtype, [-1] * len(self.buffers))
        for variable in self.fixed:
            variable.bind(-1, zeros(variable.shape, self.dtype), None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the variables, and their values for a copy to hold."""
        # Variables leave their memory out of a copy, and these lie in none of the vectors.
        return {**vars(self), "fixed_values": [variable.value for variable in self.fixed]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Give the variables of a copy memory of their own, with equal content."""
        vectors = ("values", "gradients", "buffer_values", "buffer_changes")
        # Not set as attributes: the vectors are made anew, with the variables' views of them.
        content = {name: state.pop(name) for name in (*vectors, "fixed_values")}
        vars(self).update(state)
        self._allocate()
        for name in vectors:
            np.copyto(getattr(self, name), content[name])
        for variable, value in zip(self.fixed, content["fixed_values"], strict=True):
            np.copyto(variable.value, value)


def _bind(variables: Sequence[Variable], dtype: np.dtype[Any], identities: Iterable[int]) -> tuple[Array, Array]:
    """Give the variables consecutive parts of two new vectors, for their values and their gradients, and return both."""
    sizes = [math.prod(variable.shape) for variable in variables]
    values, gradients = zeros((sum(sizes),), dtype), zeros((sum(sizes),), dtype)
    start = 0
    for identity, variable, size in zip(identities, variables, sizes, strict=True):
        part = slice(start, start + size)
        variable.bind(identity, values[part].reshape(variable.shape), gradients[part].reshape(variable.shape))
        start += size
    return values, gradients


class Buffer(Variable):
    """A statistic, such as the moving mean of a batch normalisation: not trained, but changed by training.

    An operation that takes a buffer writes, in backward, how this block wants it changed where other inputs get their
    gradients. The changes of the blocks of a batch are averaged and added once (`VariableStore.apply_changes`), so that
    replicas stay equal.
    """

    def __init__(self, shape: Sequence[int], initializer: Initializer | None = None, name: str | None = None) -> None:
        super().__init__(shape, Zeros() if initializer is None else initializer, name, trainable=False)


@dataclass(frozen=True, eq=False)
class ModelVector:
    """A contiguous vector and its parts in the shapes of the variables, in the order of their ids."""

    whole: Array
    parts: tuple[Array, ...]

    @staticmethod
    def like(store: VariableStore) -> ModelVector:
        """Return zeros with the layout of the parameters of a store."""
        whole = zeros(store.values.shape, store.dtype)
        parts, start = [], 0
        for variable in store.variables:
            end = start + variable.value.size
            parts.append(whole[start:end].reshape(variable.shape))
            start = end
        return ModelVector(whole, tuple(parts))
