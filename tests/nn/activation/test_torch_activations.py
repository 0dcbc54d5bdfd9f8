"""Cross-check of every activation with torch."""

from collections.abc import Callable
from typing import Any

import pytest

from nn import activation
from nn.random import keyed
from tests.nn.golden import DTYPES, SEEDS, Golden, drawn, one_of, optional, several, whole
from tests.nn.graphs import Compiled

torch = optional("torch")
functional = torch.nn.functional

PAIRS: dict[str, tuple[activation.Activation, Callable[[Any], Any]]] = {
    "Linear": (activation.Linear(), lambda x: x * 1),
    "ReLU": (activation.ReLU(), functional.relu),
    "LeakReLU": (activation.LeakReLU(0.2), lambda x: functional.leaky_relu(x, 0.2)),
    "ELU": (activation.ELU(0.7), lambda x: functional.elu(x, 0.7)),
    "GELU": (activation.GELU(), functional.gelu),
    "GELU approximate": (activation.GELU(approximate=True), lambda x: functional.gelu(x, approximate="tanh")),
    "SiLU": (activation.SiLU(), functional.silu),
    "Softplus": (activation.Softplus(), functional.softplus),
    "Sigmoid": (activation.Sigmoid(), torch.sigmoid),
    "Tanh": (activation.Tanh(), torch.tanh),
    "HTanh": (activation.HTanh(), functional.hardtanh),
    "Softmax": (activation.Softmax(), lambda x: torch.softmax(x, -1)),
}
PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}


@pytest.mark.parametrize("name", PAIRS)
@drawn(6, shape=several(whole(1, 7), 2, 4), scale=one_of(0.01, 1.0, 5.0), dtype=DTYPES, seed=SEEDS)
def test_values_and_gradients(golden: Golden, name: str, shape: list[int], scale: float, dtype: str, seed: int) -> None:
    ours, reference = PAIRS[name]
    generator = keyed(seed, "torch")
    x, weights = (scale * generator.standard_normal((2, *shape))).astype(dtype)
    compiled = Compiled(ours, tuple(shape[1:]), dtype)

    def compute() -> list[Any]:
        tensor = torch.tensor(x, requires_grad=True)
        expected = reference(tensor)
        expected.backward(torch.tensor(weights))
        return [expected, tensor.grad]

    value, gradient = golden(compute, x, weights, needs=torch)
    forward, backward = PRECISION[dtype]
    value.close(compiled.value(x, training=True), rtol=forward, atol=forward)
    gradient.close(compiled.gradients(x, weights)[0], rtol=backward, atol=backward)
