"""The decoder with rotary positions and tied embeddings against torch's functions: scores, loss, and every gradient."""

from __future__ import annotations

from typing import Any

import pytest

import nn
from nn.model import Transformer
from nn.random import keyed
from tests.nn.golden import Answer, Golden, optional

torch: Any = optional("torch")


def turned(x: Any) -> Any:
    """Rotary positions of (batch, heads, positions, features)."""
    waves = 10_000.0 ** (-torch.arange(0, x.shape[3], 2, dtype=torch.float64) / x.shape[3])
    angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * waves
    pairs = torch.view_as_complex(x.unflatten(3, (-1, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles).to(pairs.dtype)).flatten(3)


def scores(x: Any, of: dict[str, Any], blocks: int) -> Any:
    """The model, written with torch's functions, of its variables by name."""
    functional = torch.nn.functional

    def normalize(x: Any, number: int) -> Any:
        name = f"layernorm_{number}"
        return functional.layer_norm(x, x.shape[-1:], of[f"{name}/gamma"], of[f"{name}/beta"], eps=1e-5)

    def attend(x: Any, name: str) -> Any:
        query, key, value = (
            torch.einsum("btf,fhd->bhtd", x, of[f"{name}/{role}_kernel"]) + of[f"{name}/{role}_bias"][:, None]
            for role in ("query", "key", "value")
        )
        heads = functional.scaled_dot_product_attention(turned(query), turned(key), value, is_causal=True)
        return torch.einsum("bhtd,hdf->btf", heads, of[f"{name}/output_kernel"]) + of[f"{name}/output_bias"]

    def dense(x: Any, number: int) -> Any:
        return x @ of[f"dense_{number}/kernel"] + of[f"dense_{number}/bias"]

    table = of["embedding_1/embeddings"]
    x = functional.embedding(x, table) * table.shape[1] ** 0.5
    for block in range(blocks):
        x = x + attend(normalize(x, 2 * block + 1), f"multiheadattention_{block + 1}")
        hidden = functional.gelu(dense(normalize(x, 2 * block + 2), 2 * block + 1))
        x = x + dense(hidden, 2 * block + 2)
    return normalize(x, 2 * blocks + 1) @ table.T


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rotary_positions_and_tied_embeddings(golden: Golden, dtype: Any) -> None:
    model = Transformer(13, 9, features=12, heads=3, blocks=2, hidden=20, rotary=True, tied=True, dtype=dtype)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    # no weight is 0 or 1
    model.store.values += 0.1 * keyed(1, "noise").standard_normal(model.store.values.shape).astype(dtype)
    generator = keyed(0, "language")
    x, label = generator.integers(0, 13, (4, 9)), generator.integers(0, 13, (4, 9))
    variables = model.trainable_variables()

    def compute() -> list[Any]:
        of = {each.name: torch.tensor(each.value, requires_grad=True) for each in variables}
        found = scores(torch.tensor(x), of, 2)
        loss = torch.nn.functional.cross_entropy(found.flatten(0, -2), torch.tensor(label).flatten())
        loss.backward()
        return [loss, found, *(of[each.name].grad for each in variables)]

    expected: list[Answer] = golden(compute, x, label, model.store.values, needs=torch)
    found, output = model.compute_gradients(x, label)
    precision = 1e-4 if dtype == "float32" else 1e-9
    expected[0].close(found, rtol=precision)
    expected[1].close(output, rtol=precision, atol=precision)
    for variable, answer in zip(variables, expected[2:], strict=True):
        answer.close(variable.gradient, rtol=precision, atol=precision * max(1, answer.largest), message=variable.name)
