"""What a merge rule is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from parallel_sgd.codec.interfaces import Array


class MergeRule(ABC):
    """Makes one vector of the contributions to it. A node has one object for each vector that it merges."""

    linear: ClassVar[bool] = False
    """The result is a weighted mean or sum, so what is merged may be encoded linearly, and added up on the way."""

    exact: ClassVar[bool] = False
    """It is the mean over all blocks, which may be taken from sums over spans of them."""

    whole: ClassVar[bool] = False
    """It looks at vectors as a whole, so these may not be cut into shards."""

    first_copy: ClassVar[bool] = False
    """Each block counts once, from whoever sends it first."""

    updates: ClassVar[bool] = False
    """The result is an increment of the parameters."""

    @abstractmethod
    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the result, valid until the next call. `parts` may be overwritten; there is at least one.

        The order of parts is that of the contributions' numbers, so equal parts give equal bits on every node.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what the rule remembers."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned.

        Raises: ValueError for names that the rule does not know.
        """
        if state:
            raise ValueError(f"{type(self).__name__} remembers nothing, got {', '.join(sorted(state))}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def tree_sum(parts: Sequence[Array]) -> Array:
    """Return the sum along the fixed tree: left half, the larger one, plus right half. It is in the first part then."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    left = tree_sum(parts[:middle])
    return np.add(left, tree_sum(parts[middle:]), out=left)


def weighted_mean(parts: Sequence[Array], weights: Sequence[float]) -> Array:
    """Return sum(w x) / sum(w), along the tree; equal weights are left out of the arithmetic. It is in the first part then."""
    if all(weight == weights[0] for weight in weights):
        total = tree_sum(parts)
        return np.divide(total, len(parts), out=total) if len(parts) > 1 else total
    for part, weight in zip(parts, weights, strict=True):
        np.multiply(part, weight, out=part)
    total = tree_sum(parts)
    return np.divide(total, sum(weights), out=total)
