"""ResNet20 and the transformer against torch, with the same weights: outputs, loss, every gradient, moving statistics."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import nn
from nn.arrays import Array
from nn.loss import Cross_Entropy_With_Softmax
from nn.model import Model, ResNet20, Transformer
from nn.random import keyed
from tests.nn.golden import Golden, optional

torch = optional("torch")
functional = torch.nn.functional
PRECISION = {"float32": 1e-4, "float64": 1e-9}


class Weights:
    """The weights of a model as tensors, taken layer by layer: `take("conv2d")` is the next convolution's."""

    def __init__(self, model: Model) -> None:
        self.tensors = {
            variable.name: torch.tensor(variable.value, requires_grad=variable.trainable) for variable in model.store.everything
        }
        self._used: Counter[str] = Counter()

    def take(self, kind: str) -> dict[str, Any]:
        """Return the variables of the next layer of a kind, by their own names."""
        self._used[kind] += 1
        prefix = f"{kind}_{self._used[kind]}/"
        return {name.removeprefix(prefix): tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}


def resnet(x: Any, weights: Weights, shortcut: str) -> Any:
    """Compute ResNet20 in torch's layout, in training."""

    def convolve(x: Any, stride: int = 1, padding: int = 1) -> Any:
        kernel = weights.take("conv2d")["kernel"].permute(3, 2, 0, 1)
        x = functional.conv2d(x, kernel, stride=stride, padding=padding)
        of = weights.take("batchnorm")
        return functional.batch_norm(x, None, None, of["gamma"], of["beta"], training=True, eps=1e-5)

    x = torch.relu(convolve(x.permute(0, 3, 1, 2)))
    for stage in range(3):
        for block in range(3):
            stride = 2 if stage and not block else 1
            short = x
            if stride == 2 and shortcut == "B":
                short = convolve(x, 2, 0)
            elif stride == 2:
                short = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
            x = torch.relu(short + convolve(torch.relu(convolve(x, stride))))
    return dense(x.mean(dim=(2, 3)), weights)


def transformer(x: Any, weights: Weights, blocks: int) -> Any:
    """Compute the transformer."""

    def normalize(x: Any) -> Any:
        of = weights.take("layernorm")
        return functional.layer_norm(x, x.shape[-1:], of["gamma"], of["beta"], eps=1e-5)

    def attend(x: Any) -> Any:
        of = weights.take("multiheadattention")
        query, key, value = (
            torch.einsum("btf,fhd->bhtd", x, of[f"{role}_kernel"]) + of[f"{role}_bias"][:, None]
            for role in ("query", "key", "value")
        )
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return torch.einsum("bhtd,hdf->btf", heads, of["output_kernel"]) + of["output_bias"]

    x = functional.embedding(x, weights.take("embedding")["embeddings"]) + weights.tensors["positions"]
    for _ in range(blocks):
        x = x + attend(normalize(x))
        x = x + dense(functional.gelu(dense(normalize(x), weights)), weights)
    return dense(normalize(x), weights)


def dense(x: Any, weights: Weights) -> Any:
    of = weights.take("dense")
    return x @ of["kernel"] + of["bias"]


def compare(
    golden: Golden, model: Model, forward: Callable[[Any, Weights], Any], x: Array, label: Array, *, scores: bool = False
) -> None:
    """Compare loss, prediction (`scores`: before softmax), and the gradient of every variable."""
    precision = PRECISION[model.dtype.name]
    names = [variable.name for variable in model.trainable_variables()]

    def compute() -> list[Any]:
        weights = Weights(model)
        score = forward(torch.tensor(x), weights)
        loss = functional.cross_entropy(score.flatten(0, -2), torch.tensor(label).flatten())
        loss.backward()
        return [loss, score if scores else torch.softmax(score, -1), *(weights.tensors[name].grad for name in names)]

    loss, prediction, *gradients = golden(compute, x, label, model.store.values, needs=torch)
    found, output = model.compute_gradients(x, label)
    loss.close(found, rtol=precision)
    prediction.close(output, rtol=precision, atol=precision)
    for variable, expected in zip(model.trainable_variables(), gradients, strict=True):
        expected.close(variable.gradient, rtol=precision, atol=precision * max(1, expected.largest), message=variable.name)


def disturb(model: Model) -> None:
    """Set the model up with weights none of which is 0 or 1."""
    model.setup(Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    model.store.values += 0.1 * keyed(1, "noise").standard_normal(model.store.values.shape).astype(model.dtype)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("shortcut", ["A", "B"])
def test_resnet20(golden: Golden, shortcut: str, dtype: str) -> None:
    model = ResNet20(shortcut=shortcut, input_shape=[-1, 16, 16, 3], dtype=dtype)
    disturb(model)
    generator = keyed(0, "resnet")
    x, label = generator.standard_normal((5, 16, 16, 3)).astype(dtype), generator.integers(0, 10, 5)
    compare(golden, model, lambda x, weights: resnet(x, weights, shortcut), x, label)


@pytest.mark.parametrize("dtype", PRECISION)
def test_transformer(golden: Golden, dtype: str) -> None:
    model = Transformer(13, 9, features=12, heads=3, blocks=2, hidden=20, dtype=dtype)
    disturb(model)
    generator = keyed(0, "transformer")
    x, label = generator.integers(0, 13, (4, 9)), generator.integers(0, 13, (4, 9))
    compare(golden, model, lambda x, weights: transformer(x, weights, blocks=2), x, label, scores=True)
