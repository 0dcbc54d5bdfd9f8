"""Labels with outputs or predictions that suit them."""

import numpy as np

from nn.arrays import Array


def classes(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 4, samples), generator.standard_normal((samples, 4))


def distributions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.dirichlet(np.ones(4), samples), generator.standard_normal((samples, 4))


def numbers(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.standard_normal((samples, 3)), generator.standard_normal((samples, 3))
