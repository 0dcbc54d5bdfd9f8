"""Memory of the variables of a model: one vector of values, one of gradients, the same for its buffers, and others alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nn.arrays import Array, all_finite, zeros
from nn.initializer import Initializer, Zeros
from nn.random import keyed
from nn.value.value import Memory, Variable


class VariableStore:
    """Store of all trainable variables in one contiguous vector and their gradients in another, in the order of their ids.

    So a rule updates a whole model in a few array operations and a checkpoint is one write. Statistics that operations keep
    (`buffers`) lie in a vector of their own, beside one of the changes that the last block wants. Variables that are neither
    trained nor statistics (`fixed`) have an array of their own each.

    Models may share variables, as an encoder, a decoder and the whole of both do. Their stores then show parts of the same
    vectors: a store takes over variables that have memory, with their values, and the stores that had them follow. A model
    that does not train a variable which another one trains uses it where it lies.

    Args:
        variables: the trained ones, in the order of their ids.
        others: buffers and fixed ones.
        dtype: type of all arrays, float32 or float64.
        seed: seed of the first values.
        instead_of: the store of the same model that this one replaces, which no other model sees; None for a first one.

    Raises ValueError where the variables that another store shares would not lie side by side in both.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        others: Sequence[Variable],
        dtype: np.dtype[Any],
        seed: int,
        *,
        instead_of: VariableStore | None = None,
    ) -> None:
        self.dtype = dtype
        self.moves = 0
        """How often the memory was taken over by another store: plans made before show arrays that are no longer used."""
        self.left = False
        """Whether another store has taken a part of the variables, some others being frozen: the model makes a new one."""
        self.variables = list(variables)
        self.buffers = [variable for variable in others if isinstance(variable, Buffer)]
        self.fixed = [variable for variable in others if not isinstance(variable, Buffer)]
        self._others = list(others)
        # Before memory is made: afterwards all variables have some.
        held = {variable for variable in self.everything if variable.bound}
        self._allocate(instead_of)
        self._draw(seed, held)

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
        self.project()

    def project(self) -> None:
        """Bring the trained variables that have a constraint back to its set."""
        for variable in self.variables:
            if variable.constraint is not None:
                variable.constraint.project(variable.value)

    def initialize(self, seed: int) -> None:
        """Draw the first values, keyed by the seed and the variable's place; gradients become 0."""
        self._draw(seed, set())

    def _draw(self, seed: int, held: set[Variable]) -> None:
        for place, variable in enumerate(self.everything):
            if variable not in held:  # trained or loaded by another model
                variable.set_value(variable.initializer(variable.shape, keyed(seed, "initialize", place)))
        self.gradients[:] = 0
        self.buffer_changes[:] = 0

    def _allocate(self, former: VariableStore | None = None) -> None:
        """Find the vectors, or make them, and give every variable its part, wherever it lies in a `former` store."""
        for variable in self.everything:
            if variable.bound and variable.value.dtype != self.dtype:
                raise ValueError(
                    f"Variable '{variable.name}' is one of another model, too, in {variable.value.dtype}, so this one cannot "
                    f"compute in {self.dtype}; give both the same 'dtype'"
                )
        self.values, self.gradients = self._place(self.variables, former, trained=True)
        self.buffer_values, self.buffer_changes = self._place(self.buffers, former, trained=False)
        for variable in self.fixed:
            if not variable.bound:
                variable.bind(-1, Memory(zeros((math.prod(variable.shape),), self.dtype), None), 0)
        for variable in self.everything:
            if former is not None:
                variable.stores.discard(former)
            variable.stores.add(self)

    def _place(self, variables: Sequence[Variable], former: VariableStore | None, *, trained: bool) -> tuple[Array, Array]:
        """Return the vectors of some variables, for their values and gradients; they move to new ones if need be."""
        found = _shown(variables)
        if found is not None:
            return found
        sizes = [math.prod(variable.shape) for variable in variables]
        memory = Memory(zeros((sum(sizes),), self.dtype), zeros((sum(sizes),), self.dtype))
        old = {store: None for variable in variables for store in variable.stores if store not in (self, former)}
        # A model with variables frozen since is set up anew anyway, so it need not hold this one back.
        leaving = [store for store in old if trained and store._has_frozen() and not store._lies_within(variables)]
        for store in leaving:
            del old[store]
        _refuse_apart(variables, [store.variables if trained else store.buffers for store in old])
        # Only now: what is refused has changed nothing.
        for store in leaving:
            store._leave()
        start = 0
        for place, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
            value = variable.value if variable.bound else None
            variable.bind(place if trained else -1, memory, start)
            if value is not None:
                np.copyto(variable.value, value)
            start += size
        for store in old:
            store._follow()
        gradients = memory.gradients
        return memory.values, memory.values if gradients is None else gradients

    def _has_frozen(self) -> bool:
        """Return whether some of the trained variables were frozen since, so that the model is to be set up anew."""
        return any(variable.frozen for variable in self.variables)

    def _lies_within(self, variables: Sequence[Variable]) -> bool:
        """Return whether the trained variables would lie side by side among these, or apart from them."""
        return _first_apart(variables, self.variables) is None

    def _leave(self) -> None:
        """Leave the variables to the stores that others make of them."""
        self.left = True
        self.moves += 1
        for variable in self.everything:
            variable.stores.discard(self)

    def _follow(self) -> None:
        """Show the vectors to which another store has moved variables of this one."""
        self.moves += 1
        for variables, names in (
            (self.variables, ("values", "gradients")),
            (self.buffers, ("buffer_values", "buffer_changes")),
        ):
            found = _shown(variables)
            if found is not None:
                for name, vector in zip(names, found, strict=True):
                    setattr(self, name, vector)

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


def _shown(variables: Sequence[Variable]) -> tuple[Array, Array] | None:
    """Return the parts of the vectors in which the variables lie side by side, in their order; None where they do not."""
    if not variables:
        return None
    memory, start = variables[0]._memory, variables[0]._start
    if memory is None or memory.gradients is None:
        return None
    end = start
    for variable in variables:
        if variable._memory is not memory or variable._start != end:
            return None
        end += math.prod(variable.shape)
    return memory.values[start:end], memory.gradients[start:end]


def _first_apart(variables: Sequence[Variable], other: Sequence[Variable]) -> Variable | None:
    """Return the first variable of another store that is among these, unless all of it would lie side by side; else None."""
    places = {variable: place for place, variable in enumerate(variables)}
    found = [places.get(variable, -1) for variable in other]
    # A store shows its vectors as slices, so its variables must follow each other without a gap.
    if any(place >= 0 for place in found) and found != list(range(found[0], found[0] + len(found))):
        return next(variable for variable in other if variable in places)
    return None


def _refuse_apart(variables: Sequence[Variable], others: Sequence[Sequence[Variable]]) -> None:
    """Raise ValueError where variables of another store would not lie side by side, in its order, among these."""
    for other in others:
        found = _first_apart(variables, other)
        if found is not None:
            raise ValueError(
                f"variable '{found.name}' is trained by another model, too, whose {len(other)} variables would not lie side by "
                f"side among the {len(variables)} of this one; set up one model that has all of them first, such as one with "
                "the outputs of both, or freeze the shared layers in one of the two"
            )


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


def not_finite(values: Iterable[tuple[Variable, Array]]) -> str | None:
    """Say which variable has values that are not finite, and how many, as a clause; None where all are finite.

    Constants count not: variables that are neither made to be trained nor statistics, such as a mask of minus infinity.
    """
    bad = [
        (variable, array)
        for variable, array in values
        if (variable.made_trainable or isinstance(variable, Buffer)) and not all_finite(array)
    ]
    if not bad:
        return None
    variable, array = bad[0]
    places = np.argwhere(~np.isfinite(array)).tolist()
    others = f"; {len(bad) - 1} more of its variables are like that" if len(bad) > 1 else ""
    return (
        f"'{variable.name}' has {len(places)} of {array.size} numbers that are not finite, the first is "
        f"{array[tuple(places[0])]:g} at {places[0]}{others}"
    )
