"""What operations say about slices of the batch, for inputs with the batch at other places too."""

from collections.abc import Callable

import numpy as np
import pytest

from nn import function
from nn.operation import Attention, BatchNormalize, Broadcasting, LayerNormalize, Lookup, Operation
from nn.value import Constant, Node, Placeholder, Value, Variable
from tests.contract.nn_rows import OPERATIONS, GraphRow
from tests.nn.graphs import Compiled

X, W, ROW = Placeholder((-1, 3)), Variable((3, 3)), Variable((3,))
IMAGES = Placeholder((-1, 2, 3, 4))


def splits(value: Value) -> bool:
    assert isinstance(value, Node)
    return value.operation.splits([source.shape for source in value.inputs])


@pytest.mark.parametrize(
    "value",
    [
        X + ROW, ROW + X, X * Variable((1, 3)), X - 1, X / X, X**3, -X, X.exp(), X > 0, X**2, abs(X),
        X @ W, IMAGES @ Variable((4, 2)), IMAGES @ Variable((3, 4, 2))[:1], Variable((5, 3)) @ IMAGES,
        IMAGES @ IMAGES.swapaxes(2, 3),
        X[:, None] @ IMAGES[:, 0], X.reshape(-1, 3, 1), X[:, 1:], X[:, None], X[..., [0, 0]], X.sum(axis=1),
        IMAGES.mean(axis=(1, 2)),
        IMAGES.max(axis=-1, keepdims=True), IMAGES.transpose(0, 2, 3, 1), function.concatenate([X, X]), function.maximum(X,
        ROW),
        function.where(X > 0, X, ROW), function.tensordot(IMAGES, Variable((3, 4, 5)), 2), LayerNormalize(0.1)(X, ROW, ROW),
        BatchNormalize(0.9, 0.1)(X, ROW, ROW, ROW, ROW), Lookup(str)(X, W), Attention()(IMAGES, IMAGES, IMAGES),
    ],
    ids=lambda value: type(value.operation).__name__,
)  # fmt: skip
def test_rows_that_depend_on_their_own_rows_only(value: Node) -> None:
    assert splits(value)


@pytest.mark.parametrize(
    "value",
    [
        W + ROW, -W, W @ W, W[1:], W.sum(axis=1),  # no batch
        # the batch is not first, or is twice
        X.T + 1, X.T @ X, X @ X.T, X.T.exp(), X.T, X.T.T, X.T.sum(axis=0), X.T[1], X.T[None, 0],
        X[:, None] + X, X + X.T[..., None], X * X.reshape(1, -1, 3), Variable((5, 1, 3)) + X, X.reshape(1, -1, 3),
        X @ Variable((5, 3, 2)), Variable((5, 1, 2, 2)) @ Placeholder((-1, 2, 3)), X[None],
        X.sum(), X.mean(axis=0), X.max(axis=0, keepdims=True), X.reshape(-1, 1), X.reshape(-1), function.stack([X, X], axis=0),
        LayerNormalize(0.1)(Placeholder((-1,)), Variable((1,)),
        Variable((1,))),
        function.where(X.T > 0, 1, X.T),
    ],
    ids=lambda value: type(value.operation).__name__,
)  # fmt: skip
def test_what_mixes_rows_or_has_no_batch_in_front(value: Node) -> None:
    assert not splits(value)


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
def test_each_operation_on_slices(row: GraphRow) -> None:
    """Where an operation says that it splits, its copies on slices compute the same values and gradients."""
    compiled = Compiled(row.build(), row.sample)
    x = row.draw(np.random.default_rng(0), (5, *row.sample))
    values: dict[Value, np.ndarray] = {compiled.placeholder: x}
    for node in compiled.graph.nodes:
        inputs = [values[source] if source in values else known(source) for source in node.inputs]
        output = run(node.operation, inputs)
        values[node] = output
        shapes = [source.shape for source in node.inputs]
        if not node.operation.splits(shapes):
            continue
        batched = [shape[0] == -1 if shape else False for shape in shapes]
        weights = np.random.default_rng(1).standard_normal(output.shape)
        varied = [node.operation.differentiable and not isinstance(source, Constant) for source in node.inputs]
        whole = gradients(node.operation, inputs, weights, varied)
        parts: list[list[np.ndarray]] = [[] for _ in inputs]
        for part in (slice(0, 1), slice(1, 3), slice(3, 5)):
            own = [array[part] if cut else array for array, cut in zip(inputs, batched, strict=True)]
            np.testing.assert_allclose(run(node.operation, own), output[part], rtol=1e-12, atol=1e-14)
            for place, gradient in enumerate(gradients(node.operation, own, weights[part], varied)):
                parts[place].append(gradient)
        for place, cut in enumerate(batched):
            joined = np.concatenate(parts[place]) if cut else np.sum(parts[place], axis=0)
            np.testing.assert_allclose(joined, whole[place], rtol=1e-10, atol=1e-12)


def known(value: Value) -> np.ndarray:
    return np.asarray(value.value if isinstance(value, Variable) else value.array, np.float64)  # type: ignore[attr-defined]


def prepared(operation: Operation, inputs: list[np.ndarray]) -> tuple[Operation, np.ndarray]:
    output = operation.infer(*(array.shape for array in inputs))
    operation.allocate([array.shape for array in inputs], output, np.dtype(np.float64))
    out = np.empty(output)
    operation.forward(inputs, out)
    return operation, out


def run(operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    return prepared(operation, inputs)[1]


def gradients(operation: Operation, inputs: list[np.ndarray], weights: np.ndarray, varied: list[bool]) -> list[np.ndarray]:
    operation, output = prepared(operation, inputs)
    wanted = [np.zeros(array.shape) for array in inputs]
    asked = [array if wants else None for array, wants in zip(wanted, varied, strict=True)]
    operation.backward(inputs, output, weights.copy(), asked)
    return wanted


def test_broadcasting_needs_equally_many_axes() -> None:
    class Sum(Broadcasting):
        def forward(self, inputs: object, out: object) -> None: ...

        def partial(self, *_: object) -> np.ndarray:
            return np.zeros(1)

    check: Callable[..., bool] = Sum().splits
    assert check([(-1, 4), (4,)])
    assert check([(1, 4), (-1, 4)])
    assert not check([(-1, 4), (-1, -1, 4)])
    assert not check([(-1,), (3, 1)])
