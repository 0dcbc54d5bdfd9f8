"""What is computed: every contender builds the same network and does the same steps."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EAGER = "torch eager"


class Workload(NamedTuple):
    """A network as (kind, size) of its layers, the shape of a sample, and the ratio to torch eager that each number of threads
    must reach.

    Kinds: dense, conv (3x3, 'same'), pool (2x2), flatten, lstm. The activation stands behind every dense and conv layer but the
    last. A round has so many steps that it takes about 0.4 s: threads that have slept may share a core for the first 50 ms.
    """

    title: str
    sample: tuple[int, ...]
    layers: tuple[tuple[str, int], ...]
    activation: str
    batch: int
    steps: int
    goals: Mapping[int, float]
    best: bool = False
    """Whether it must be at least as fast as the best of the peers."""

    share: float = 0.0
    """What training must reach of the bound, which `benchmarks.nn.bound` measures."""

    @property
    def classes(self) -> int:
        """The number of outputs."""
        return self.layers[-1][1]

    @property
    def hidden(self) -> tuple[int, ...] | None:
        """The hidden layers of a plain perceptron; None for other networks."""
        kinds = {kind for kind, _ in self.layers}
        return tuple(size for _, size in self.layers[:-1]) if kinds == {"dense"} else None

    def data(self, count: int | None = None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return samples (channels last) and labels, for one round unless another count is given."""
        generator = np.random.default_rng(0)
        count = self.batch * self.steps if count is None else count
        x = generator.standard_normal((count, *self.sample), dtype=np.float32)
        return x, generator.integers(0, self.classes, count)


def _dense(*sizes: int) -> tuple[tuple[str, int], ...]:
    return tuple(("dense", size) for size in sizes)


WORKLOADS = {
    "small": Workload("MLP 784-128-128-10", (784,), _dense(128, 128, 10), "tanh", 64, 300, {1: 1.7, 2: 1.7}, best=True),
    "large": Workload(
        "MLP 784-1024-1024-10", (784,), _dense(1024, 1024, 10), "relu", 128, 40, {1: 1.5, 2: 1.5}, best=True, share=0.92
    ),
    "cnn28": Workload(
        "CNN 28x28x1",
        (28, 28, 1),
        (("conv", 32), ("pool", 2), ("conv", 64), ("pool", 2), ("flatten", 0), *_dense(128, 10)),
        "relu", 64, 30, {1: 1.1, 2: 1.2},
    ),
    "cnn32": Workload(
        "CNN 32x32x3",
        (32, 32, 3),
        (
            ("conv", 64), ("conv", 64), ("pool", 2), ("conv", 128), ("conv", 128), ("pool", 2), ("flatten", 0),
            *_dense(256, 10),
        ),
        "relu", 64, 1, {1: 1.1, 2: 1.2},
    ),
    "lstm": Workload("LSTM over 28 rows of 28", (28, 28), (("lstm", 128), ("dense", 10)), "tanh", 64, 50, {1: 1.0, 2: 1.0}),
}  # fmt: skip


def repetitions(batch: int) -> int:
    """Return how many predictions of this batch size make one round."""
    return 500 if batch == 1 else 1
