"""The majority decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parallel_sgd.codec.interfaces import Array

from .rule import MergeRule, tree_sum


class Vote(MergeRule):
    """+1 or -1 for each element, as most workers say: sign(sum_i sign(x_i)). 0 counts as positive, and so does a tie.

    Every worker has one vote, however many blocks it has. Bernstein et al., "signSGD with majority vote is communication
    efficient and fault tolerant", 2019. Learning rates are those of sign descent, 1e-4 to 1e-3.
    """

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the majority."""
        for part in parts:
            np.copyto(part, np.where(part < 0, part.dtype.type(-1), part.dtype.type(1)))
        total = tree_sum(parts)
        np.copyto(total, np.where(total < 0, total.dtype.type(-1), total.dtype.type(1)))
        return total
