"""A `BatchNorm` that a graph uses several times moves its statistics as one use of the mean would."""

from __future__ import annotations

import numpy as np
import pytest

import nn
from nn.layer import BatchNorm, Dense


class Uses(nn.model.Model):
    """Normalises each of the inputs' columns of `width` by one layer."""

    def __init__(self, uses: int, momentum: float, width: int = 2) -> None:
        super().__init__([-1, uses * width])
        self.norm, self.uses, self.width = BatchNorm(momentum), uses, width

    def call(self, x: nn.Value) -> nn.Value:
        total = self.norm(x[:, : self.width])
        for use in range(1, self.uses):
            total = total + self.norm(x[:, use * self.width : (use + 1) * self.width])
        return Dense(1)(total)


def seen(uses: int, samples: int = 64) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal((samples, uses * 2)) + 2).astype(np.float32)


@pytest.mark.parametrize(("uses", "momentum"), [(3, 0.3), (25, 0.9), (2, 0.99)])
def test_moving_statistics_stay_within_what_was_seen(uses: int, momentum: float) -> None:
    x = seen(uses)
    model = Uses(uses, momentum)
    model.compile("sgd", "mse")
    model.fit(x, np.zeros(len(x)), epochs=60, batch_size=64, verbose=0)
    parts = x.reshape(len(x), uses, 2)
    left = momentum**60
    mean, variance = parts.mean(axis=0).mean(axis=0), parts.var(axis=0).mean(axis=0)
    assert model.norm.moving_mean.value == pytest.approx((1 - left) * mean, rel=1e-4)
    assert model.norm.moving_variance.value == pytest.approx(left + (1 - left) * variance, rel=1e-4)
    assert np.isfinite(model.predict(x)).all()


def test_blocks_give_the_mean_of_their_means() -> None:
    """Accumulated over blocks, as a worker does, the changes are those of each block."""
    x, changes = seen(3), []
    model = Uses(3, 0.5)
    model.compile("sgd", "mse")
    for rows in (slice(32), slice(32, 64)):
        model.compute_gradients(x[rows], np.zeros(32))
        changes.append(model.store.buffer_changes.copy())
        parts = x[rows].reshape(32, 3, 2)
        expected = 0.5 * np.concatenate([parts.mean(axis=0).mean(axis=0), parts.var(axis=0).mean(axis=0) - 1])
        assert changes[-1] == pytest.approx(expected, rel=1e-4)
    batch = model._make_batch(x[:32], np.zeros(32))
    for add in (False, True):
        model.runner.step(batch.x, batch.label, None, (0,), add=add)
        assert (model.store.buffer_changes == changes[0]).all()
