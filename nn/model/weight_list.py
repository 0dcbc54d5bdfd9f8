"""The weights of a model as a list of arrays, in the order and the shapes that Keras uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, as_array
from nn.graph import Graph
from nn.layer import Layer
from nn.value import Variable


def ordered(graph: Graph) -> list[Variable]:
    """Return all variables: those of no layer first, then layer by layer, and of a layer the trainable ones first."""
    owners: dict[Layer | None, list[Variable]] = {None: []}
    for variable in graph.variables:
        owners.setdefault(variable.owner, []).append(variable)
    return [variable for found in owners.values() for variable in sorted(found, key=lambda each: not each.made_trainable)]


def get_weights(graph: Graph) -> list[Array]:
    """Return copies of the values in that order."""
    return [variable.get_value() for variable in ordered(graph)]


def set_weights(graph: Graph, weights: Sequence[Any]) -> None:
    """Copy all values in that order, or none.

    Raises ValueError naming the first variable whose shape differs, TypeError for arrays that hold no real numbers.
    """
    variables = ordered(graph)
    if isinstance(weights, np.ndarray) or len(weights) != len(variables):
        found = "one array" if isinstance(weights, np.ndarray) else f"{len(weights)}"
        names = ", ".join(f"{variable.name} {variable.shape}" for variable in variables[:8])
        more = ", ..." if len(variables) > 8 else ""
        raise ValueError(f"set_weights() takes a list of {len(variables)} arrays ({names}{more}), got {found}")
    arrays = [as_array(f"set_weights() array {place}", weight) for place, weight in enumerate(weights)]
    for place, (variable, array) in enumerate(zip(variables, arrays, strict=True)):
        if array.dtype.kind not in "iufb":
            raise TypeError(f"set_weights() array {place}, '{variable.name}', must hold numbers, got {array.dtype}")
        if array.shape != variable.shape:
            raise ValueError(
                f"set_weights() array {place}, '{variable.name}', must have shape {variable.shape}, got {array.shape}"
            )
    for variable, array in zip(variables, arrays, strict=True):
        variable.set_value(array)
