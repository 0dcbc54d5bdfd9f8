"""What is computed: every contender builds the same decoder, trains it on the same windows and continues one sequence."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EAGER = "torch eager"


class Workload(NamedTuple):
    """A decoder with rotary positions and tied embeddings, windows of a step, and steps of a round."""

    title: str
    vocabulary: int
    length: int
    features: int
    heads: int
    blocks: int
    batch: int
    steps: int

    @property
    def trained(self) -> int:
        """Tokens that a round of training sees."""
        return self.batch * self.steps * self.length

    @property
    def drawn(self) -> int:
        """Tokens that a round of sampling draws, behind the first one."""
        return self.length - 1

    def data(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return windows (n, length) and the tokens that follow, for one round."""
        ids = np.random.default_rng(0).integers(0, self.vocabulary, (self.batch * self.steps, self.length + 1))
        return ids[:, :-1].copy(), ids[:, 1:].copy()


WORKLOADS = {
    "small": Workload("2 blocks of 96 features, 512 tokens", 512, 64, 96, 4, 2, 32, 6),
    "middle": Workload("4 blocks of 256 features, 2048 tokens", 2048, 128, 256, 8, 4, 8, 2),
}
