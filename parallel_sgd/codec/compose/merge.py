"""Merge rules, which make one vector of the contributions. Means and sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from nn import arguments
from nn.gradient_descent import IGradientDescent
from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import Draw, Part
from parallel_sgd.engine.block_tree import reduce_tree


class Round(NamedTuple):
    """Facts about one merge that a merge rule may use: its exchange, its random numbers, the workers of the contributions.

    Args:
        number: number of the exchange, counted from 0, and on after a restart; the batches between exchanges do not count.
        draw: keys the random numbers of the merge rule: equal on all nodes that merge these contributions, other ones for each
            vector that is merged. Its epoch and batch are those of the exchange, its variable the variable.
        nodes: the worker that each contribution is from, in their order.
    """

    number: int
    draw: Draw
    nodes: tuple[int, ...]


class MergeRule(Part, ABC, passes={"combine": (3,)}, widened={"combine": 2}):
    """Rule that makes one vector of the contributions to it. A node has one object for each vector that it merges."""

    linear: ClassVar[bool] = False
    """The result is a weighted mean or sum, so payloads may be encoded linearly, and added up on the way."""
    exact: ClassVar[bool] = False
    """It is the mean over all blocks, which may be taken from sums over spans of them."""
    whole: ClassVar[bool] = False
    """It looks at vectors as a whole, so these may not be cut into shards."""
    first_copy: ClassVar[bool] = False
    """Each block counts once, from the worker that sends it first."""
    updates: ClassVar[bool] = False
    """The result is an increment of the parameters."""
    votes: ClassVar[bool] = False
    """It looks at signs alone, so numbers of which stages leave out a part do no harm."""
    rule: IGradientDescent | None = None
    """The rule of gradient descent that makes the increment, where one does."""
    fewest: int = 1
    """The fewest contributions that it can merge; a job of fewer is refused before it starts."""
    weights: Sequence[float] | None = None
    """Those of the workers; None: their numbers of blocks."""

    def use(self, send: str) -> None:
        """Take note of the kind of the vectors that are merged: `send` is "gradient", "weights" or "delta"."""
        return

    @abstractmethod
    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round) -> Array:
        """Return the result, valid until the next call.

        Args:
            parts: at least one flat vector, which may be overwritten, in the order of the contributions' numbers, so that equal
                parts give equal bits on every node.
            weights: the weight of each part; by default the number of blocks of its worker, or 1 for a block.
            round_: number of the exchange, random numbers, and the worker of each part.
        """


def tree_sum(parts: Sequence[Array]) -> Array:
    """Return the sum along the fixed tree: left half, the larger one, plus right half. It is in the first part then."""
    return reduce_tree(parts, lambda left, right: np.add(left, right, out=left))


def weighted_mean(parts: Sequence[Array], weights: Sequence[float]) -> Array:
    """Return sum(w x) / sum(w), along the tree; equal weights are left out of the arithmetic. It is in the first part then."""
    # multiplying by equal weights would cost a rounding for nothing
    if all(weight == weights[0] for weight in weights):
        total = tree_sum(parts)
        return np.divide(total, len(parts), out=total) if len(parts) > 1 else total
    # in place: parts are copies (`Gatherer`)
    for part, weight in zip(parts, weights, strict=True):
        np.multiply(part, weight, out=part)
    total = tree_sum(parts)
    return np.divide(total, sum(weights), out=total)


class Mean(MergeRule):
    """The mean over all blocks: sum_i n_i x_i / sum_i n_i for workers i with n_i blocks each."""

    linear: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        return weighted_mean(parts, weights)


class FirstCopy(Mean):
    """The mean over all blocks, each counted once, by the copy that comes first.

    All workers that hold a block encode it by itself and alike: random draws depend on the block, and the state of stages is
    kept for each block. So up to r - 1 workers of those that share a block may be late or lost, and no bit changes.
    """

    first_copy: ClassVar[bool] = True


class WeightedMean(MergeRule):
    """Weighted mean, sum_i w_i x_i / sum_i w_i over workers i.

    By default w_i is the number of the worker's blocks, and so of its samples. McMahan et al., "Communication-efficient
    learning of deep networks from decentralized data", 2017.

    Raises: TypeError, ValueError unless all weights are numbers > 0.
    """

    linear: ClassVar[bool] = True

    def __init__(self, weights: Sequence[float] | None = None) -> None:
        self.weights = None
        if weights is not None:
            given = arguments.sequence(self, "weights", weights, "numbers")
            self.weights = [arguments.number(self, "weights", weight, 0, open_low=True) for weight in given]

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        return weighted_mean(parts, weights)


class Sum(MergeRule):
    """The sum over all blocks, sum_i n_i x_i."""

    linear: ClassVar[bool] = True

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        for part, weight in zip(parts, weights, strict=True):
            # times 1 changes no bit and needs no pass
            if weight != 1:
                part *= weight
        return tree_sum(parts)
