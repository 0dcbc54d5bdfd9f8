"""How epochs deal samples, told a second time in the words of the contract, for tests to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nn.random import keyed

Places = NDArray[np.int64]


def dealt(samples: int, size: int, blocks: int, epoch: int, seed: int | None) -> list[list[Places]]:
    """The samples of every block of every batch of an epoch; without a seed in the order in which they lie."""
    order = np.arange(samples) if seed is None else keyed(seed, "order", epoch).permutation(samples)
    batches = [order[start : start + size * blocks] for start in range(0, samples, size * blocks)]
    return [[batch[b * len(batch) // blocks : (b + 1) * len(batch) // blocks] for b in range(blocks)] for batch in batches]


def factors(batch: list[Places]) -> list[np.float32]:
    """By what the mean over each block is multiplied, so that the mean over blocks is the mean over samples."""
    return [np.float32(len(block) * len(batch) / sum(map(len, batch))) for block in batch]
