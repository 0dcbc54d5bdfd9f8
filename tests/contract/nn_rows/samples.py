"""Labels with outputs or predictions that suit them, and inputs of activations."""

import numpy as np

from nn.arrays import Array, Shape


def classes(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 4, samples), generator.standard_normal((samples, 4))


def distributions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.dirichlet(np.ones(4), samples), generator.standard_normal((samples, 4))


def numbers(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.standard_normal((samples, 3)), generator.standard_normal((samples, 3))


def far_numbers(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.standard_normal((samples, 2, 3)), 5 * generator.standard_normal((samples, 2, 3))


def class_probabilities(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 4, samples), probabilities(generator, (samples,))


def distribution_probabilities(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.dirichlet(np.ones(4), samples), probabilities(generator, (samples,))


def sequences_of_classes(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 4, (samples, 3)), generator.standard_normal((samples, 3, 4))


def sequences_of_class_probabilities(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 4, (samples, 3)), probabilities(generator, (samples, 3))


def sequences_of_distributions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.dirichlet(np.ones(4), (samples, 3)), generator.standard_normal((samples, 3, 4))


def decisions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 2, (samples, 3)), generator.standard_normal((samples, 3))


def signed_decisions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return 2 * generator.integers(0, 2, samples) - 1, generator.standard_normal((samples, 1))


def decided_probabilities(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.uniform(0, 1, (samples, 3)), generator.uniform(0.1, 0.9, (samples, 3))


def probable_decisions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.uniform(0, 1, (samples, 3)), 5 * generator.standard_normal((samples, 3))


def spread_labels(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    """Labels of CTC with the blank 0: of two classes, of one, and of none, repeated ones among them."""
    label = np.resize([[1, 2], [1, 1], [2, 0], [0, 0]], (samples, 2))
    return label, generator.standard_normal((samples, 4, 3))


def spread_labels_behind(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    label, scores = spread_labels(generator, samples)
    return (label + 2) % 3, scores


def counts(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 5, (samples, 3)), generator.uniform(0.2, 4, (samples, 3))


def divergent_rows(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.dirichlet(np.ones(4), (samples, 2)), probabilities(generator, (samples, 2))


def directions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.standard_normal((samples, 2, 4)), generator.standard_normal((samples, 2, 4))


def masks(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 2, (samples, 3, 4)), generator.uniform(0, 1, (samples, 3, 4))


def distances(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 2, (samples, 2)), generator.uniform(0, 1.5, (samples, 2))


def triplets(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return np.zeros(samples), generator.standard_normal((samples, 3, 4))


def probabilities(generator: np.random.Generator, shape: Shape) -> Array:
    """Rows of four that keep off 0, where the logarithm bends too much for difference quotients."""
    return 0.05 + 0.8 * generator.dirichlet(np.ones(4), shape)


def wide(generator: np.random.Generator, shape: Shape) -> Array:
    return 3 * generator.standard_normal(shape)
