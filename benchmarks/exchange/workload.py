"""What is measured: all-reduces of one size, and steps of data-parallel training on one global batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Reduction:
    """`count` all-reduces of `size` bytes of float32 per round; the goals are ratios of times, theirs to ours.

    `gloo` and `mpi` are for two processes, `many` is for gloo with more.
    """

    size: int
    count: int
    gloo: float
    mpi: float = 0.0
    many: float = 0.0

    def __str__(self) -> str:
        return f"{self.size / 1e6:g} MB" if self.size >= 1e6 else f"{self.size // 1024} KB"


REDUCTIONS = {
    "4KB": Reduction(4096, 200, gloo=10.0),
    "4MB": Reduction(4 << 20, 20, gloo=2.0, mpi=1.0, many=2.0),
    "100MB": Reduction(100 << 20, 2, gloo=2.0, mpi=2.0, many=2.0),
}


@dataclass(frozen=True)
class Network:
    """A perceptron on random samples, trained with Adam; `batch` is the global batch of a step.

    What is between two epochs counts, too (evaluation, hashes of the weights, tables), so epochs have the length of small data
    sets: the wide ones that of 20,000 samples.
    """

    layers: tuple[int, ...]
    batch: int
    per_epoch: int
    epochs: int
    activation: str = "tanh"

    @property
    def steps(self) -> int:
        """Those that are measured."""
        return self.per_epoch * self.epochs

    def __str__(self) -> str:
        return f"MLP {'-'.join(map(str, self.layers))}, global batch {self.batch}"

    def samples(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Samples and one-hot labels of an epoch."""
        generator = np.random.default_rng(0)
        x = generator.standard_normal((self.per_epoch * self.batch, self.layers[0]), dtype=np.float32)
        return x, np.eye(self.layers[-1], dtype=np.float32)[generator.integers(0, self.layers[-1], len(x))]


NETWORKS = {
    "tutorial": Network((784, 128, 128, 10), 128, 150, 4),
    "large256": Network((784, 1024, 1024, 10), 256, 78, 2, "relu"),
    "large1024": Network((784, 1024, 1024, 10), 1024, 19, 2, "relu"),
}
