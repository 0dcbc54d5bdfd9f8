"""State of a rule for other variables than those it was made for: of halves of a model, and after layers were frozen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.wrapping import AVERAGE, averages
from nn.value.value import Variable


def state_for(
    rule: IGradientDescent, before: Sequence[Variable], variables: Sequence[Variable]
) -> dict[str, Array | int | float]:
    """Return the state of a rule for these variables: that which it has of each, and that of a first step where it has none.

    Args:
        rule: the rule; its arrays have a number for each parameter.
        before: the variables that it was made for, in the order of their ids.
        variables: those that it is for now, with memory.
    """
    ends = np.cumsum([0, *(variable.value.size for variable in before)])
    places = {variable: slice(*ends[place : place + 2]) for place, variable in enumerate(before)}
    # A mean of the parameters begins with them, all else with 0.
    means = averages(rule) is not None

    def for_these(name: str, value: Array) -> Array:
        first = means and name.rpartition(".")[2] == AVERAGE
        parts = [np.empty(0, value.dtype)]
        for variable in variables:
            if variable in places:
                parts.append(value[places[variable]])
            else:
                parts.append(variable.value.reshape(-1) if first else np.zeros(variable.value.size, value.dtype))
        return np.concatenate(parts, dtype=value.dtype)

    return {
        name: for_these(name, value) if isinstance(value, np.ndarray) else value for name, value in rule.state_dict().items()
    }
