"""Cross-check of every activation with torch."""

from collections.abc import Callable
from typing import Any

import pytest

from nn import activation
from nn.operation import Mode
from nn.plan import Plan
from nn.random import keyed
from nn.value import Node, Placeholder
from nn.value.graph import Graph
from tests.nn.golden import DTYPES, SEEDS, Golden, drawn, one_of, optional, several, whole

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
    placeholder = Placeholder((-1, *shape[1:]))
    output = ours(placeholder)
    assert isinstance(output, Node)
    plan = Plan(Graph(placeholder, output), x.shape, x.dtype, training=True, input_gradient=True)
    found = plan.forward(x, Mode(training=True))

    def compute() -> list[Any]:
        tensor = torch.tensor(x, requires_grad=True)
        expected = reference(tensor)
        expected.backward(torch.tensor(weights))
        return [expected, tensor.grad]

    value, gradient = golden(compute, x, weights, needs=torch)
    forward, backward = PRECISION[dtype]
    value.close(found, rtol=forward, atol=forward)
    plan.output_gradient[:] = weights
    plan.backward()
    gradient.close(plan.input_gradient, rtol=backward, atol=backward)
