"""States before the first step of a recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nn import Input
from nn.layer import GRU, LSTM, SimpleRNN
from nn.model import Model
from nn.random import keyed
from tests.contract.nn_rows.recurrent import normal_bias


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("kind", [LSTM, GRU, SimpleRNN])
def test_no_state_before_the_first_step_is_one_of_zeros(kind: Any, use_bias: bool) -> None:
    """Predictions, losses and gradients have the bits that they have where zeros are given, which are multiplied: of so few
    numbers every kernel of the BLAS makes one sum."""
    draw = keyed(0, "zeros")
    data, label = (draw.standard_normal(shape, dtype=np.float32) for shape in ((7, 5, 3), (7, 4)))
    count = 2 if kind is LSTM else 1
    found = []
    for given in (False, True):
        x, *states = (Input(shape) for shape in ((5, 3), *[(4,)] * count * given))
        layer = kind(4, use_bias=use_bias, bias_initializer=normal_bias())
        model = Model([x, *states] if given else x, layer(x, initial_state=states or None), seed=1)
        model.setup("mse")
        inputs = [data, *[np.zeros((7, 4), np.float32)] * count] if given else data
        loss, _ = model.compute_gradients(inputs, label)
        found.append([model.predict(inputs).tobytes(), loss, model.store.gradients.tobytes(), model.store.values.tobytes()])
    assert found[0] == found[1]
