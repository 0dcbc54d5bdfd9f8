"""Vectors like that of the parameters, seen variable by variable."""

from dataclasses import dataclass

from nn.arrays import Array, zeros
from nn.value.store import VariableStore


@dataclass(frozen=True, eq=False)
class ModelVector:
    """A contiguous vector and its parts in the shapes of the variables, in the order of their ids."""

    whole: Array
    parts: tuple[Array, ...]

    @staticmethod
    def like(store: VariableStore) -> "ModelVector":
        """Return zeros with the layout of the parameters of a store."""
        whole = zeros(store.values.shape, store.dtype)
        parts, start = [], 0
        for variable in store.variables:
            end = start + variable.value.size
            parts.append(whole[start:end].reshape(variable.shape))
            start = end
        return ModelVector(whole, tuple(parts))
