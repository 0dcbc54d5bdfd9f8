"""What is trained: every contender does the same steps, with shuffled samples, loss and accuracy of every batch, and Adam."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Workload(NamedTuple):
    """A network, an activation, a batch size, steps per round, and the ratio to torch eager that it must reach."""

    sizes: tuple[int, ...]
    activation: str
    batch: int
    steps: int
    goal: float

    def __str__(self) -> str:
        return f"{'-'.join(map(str, self.sizes))} {self.activation} batch {self.batch}"

    def data(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return samples and labels for one round."""
        generator = np.random.default_rng(0)
        count = self.batch * self.steps
        x = generator.standard_normal((count, self.sizes[0]), dtype=np.float32)
        return x, generator.integers(0, self.sizes[-1], count)


WORKLOADS = {
    "small": Workload((784, 128, 128, 10), "tanh", 64, 300, 1.7),
    "large": Workload((784, 1024, 1024, 10), "relu", 128, 20, 1.5),
}
