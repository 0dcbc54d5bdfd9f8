"""Means and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from nn import arguments
from parallel_sgd.codec.interfaces import Array

from .rule import MergeRule, tree_sum, weighted_mean


class Mean(MergeRule):
    """The mean over all blocks: sum_i n_i x_i / sum_i n_i for workers i with n_i blocks each."""

    linear: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the mean."""
        return weighted_mean(parts, weights)


class FirstCopy(Mean):
    """The mean over all blocks, of which redundant copies count once, whichever comes first.

    All who hold a block encode it by itself and alike: random draws depend on the block, and what stages remember is kept
    for each block. So up to r - 1 workers of those that share a block may be late or lost, and no bit changes.
    """

    first_copy: ClassVar[bool] = True


class WeightedMean(MergeRule):
    """sum_i w_i x_i / sum_i w_i over workers i; by default w_i is the number of the worker's blocks, and so of its samples.

    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017.

    Raises: TypeError, ValueError unless all weights are numbers > 0.
    """

    linear: ClassVar[bool] = True

    def __init__(self, weights: Sequence[float] | None = None) -> None:
        self.weights = None
        if weights is not None:
            self.weights = [arguments.number(self, "weights", weight, 0, open_low=True) for weight in weights]

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the mean."""
        return weighted_mean(parts, weights)

    def __repr__(self) -> str:
        return "WeightedMean()" if self.weights is None else f"WeightedMean({self.weights})"


class Sum(MergeRule):
    """The sum over all blocks, sum_i n_i x_i."""

    linear: ClassVar[bool] = True

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the sum."""
        for part, weight in zip(parts, weights, strict=True):
            if weight != 1:
                part *= weight
        return tree_sum(parts)
