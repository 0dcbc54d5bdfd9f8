"""What operations say about slices of the batch, for inputs with the batch at other places too."""

import numpy as np
import pytest

from nn import function
from nn.operation import (
    Attention,
    BatchNormalize,
    Broadcasting,
    LayerNormalize,
    Lookup,
    Operation,
    Rounding,
    TakeAlong,
    TopPlaces,
)
from nn.operation.operation import Mode
from nn.value import Constant, Node, Placeholder, Value, Variable
from tests.contract.nn_rows import OPERATIONS, GraphRow
from tests.nn.graphs import Compiled

X, W, ROW = Placeholder((-1, 3)), Variable((3, 3)), Variable((3,))
IMAGES = Placeholder((-1, 2, 3, 4))
BY_ROW = [
    X + ROW, ROW + X, X * Variable((1, 3)), X - 1, X / X, X**3, -X, X.exp(), X > 0, X**2, abs(X),
    X @ W, IMAGES @ Variable((4, 2)), IMAGES @ Variable((3, 4, 2))[:1], Variable((5, 3)) @ IMAGES,
    IMAGES @ IMAGES.swapaxes(2, 3), X[:, None] @ IMAGES[:, 0], X.reshape(-1, 3, 1), X[:, 1:], X[:, None], X[..., [0, 0]],
    X.sum(axis=1), IMAGES.mean(axis=(1, 2)), IMAGES.max(axis=-1, keepdims=True), IMAGES.transpose(0, 2, 3, 1),
    function.concatenate([X, X]), function.maximum(X, ROW),
    function.where(X > 0, X, ROW), function.tensordot(IMAGES, Variable((3, 4, 5)), 2), LayerNormalize(0.1)(X, ROW, ROW),
    BatchNormalize(0.9, 0.1)(X, ROW, ROW, ROW, ROW), Lookup(str)(X, W), Attention()(IMAGES, IMAGES, IMAGES),
    Rounding("down")(X), TopPlaces(2)(X), TakeAlong(1)(IMAGES, IMAGES[:, [0, 0, 1]]),
]  # fmt: skip
MIXED = [
    W + ROW, -W, W @ W, W[1:], W.sum(axis=1),  # no batch
    # the batch is not first, or is twice
    X.T + 1, X.T @ X, X @ X.T, X.T.exp(), X.T, X.T.T, X.T.sum(axis=0), X.T[1], X.T[None, 0],
    X[:, None] + X, X + X.T[..., None], X * X.reshape(1, -1, 3), Variable((5, 1, 3)) + X, X.reshape(1, -1, 3),
    X @ Variable((5, 3, 2)), Variable((5, 1, 2, 2)) @ Placeholder((-1, 2, 3)), X[None],
    X.sum(), X.mean(axis=0), X.max(axis=0, keepdims=True), X.reshape(-1, 1), X.reshape(-1), function.stack([X, X], axis=0),
    LayerNormalize(0.1)(Placeholder((-1,)), Variable((1,)), Variable((1,))), function.where(X.T > 0, 1, X.T),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "splits"),
    [*((value, True) for value in BY_ROW), *((value, False) for value in MIXED)],
    ids=lambda value: type(value.operation).__name__ if isinstance(value, Node) else str(value),
)
def test_rows_that_depend_on_their_own_rows_only_are_told_from_others(value: Node, splits: bool) -> None:
    assert value.operation.splits([source.shape for source in value.inputs]) == splits


def computed(
    operation: Operation, inputs: list[np.ndarray], weights: np.ndarray | None, varied: list[bool]
) -> list[np.ndarray]:
    """The output and, for a gradient of it, those of all inputs that vary; zeros for the others."""
    output = np.empty(operation.infer(*(array.shape for array in inputs)))
    operation.allocate([array.shape for array in inputs], output.shape, output.dtype)
    operation.begin(Mode(), 0)
    operation.forward(inputs, output)
    wanted = [np.zeros(array.shape) for array in inputs]
    if weights is not None:
        asked = [array if wants else None for array, wants in zip(wanted, varied, strict=True)]
        operation.backward(inputs, output, weights.copy(), asked)
    return [output, *wanted]


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
def test_each_operation_on_slices(row: GraphRow) -> None:
    """Where an operation says that it splits, its copies on slices compute the same values and gradients."""
    compiled = Compiled(row.build(), row.sample)
    values: dict[Value, np.ndarray] = {compiled.placeholder: row.draw(np.random.default_rng(0), (5, *row.sample))}
    for node in compiled.graph.nodes:
        for source in node.inputs:
            if source not in values:
                values[source] = np.asarray(source.value if isinstance(source, Variable) else source.array, np.float64)
        inputs, shapes = [values[source] for source in node.inputs], [source.shape for source in node.inputs]
        varied = [node.operation.differentiable and not isinstance(source, Constant) for source in node.inputs]
        output = values[node] = computed(node.operation, inputs, None, varied)[0]
        if not node.operation.splits(shapes):
            continue
        batched = [True, *(bool(shape) and shape[0] == -1 for shape in shapes)]
        weights = np.random.default_rng(1).standard_normal(output.shape)
        whole = computed(node.operation, inputs, weights, varied)
        parts = []
        for part in (slice(0, 1), slice(1, 3), slice(3, None)):
            own = [array[part] if cut else array for array, cut in zip(inputs, batched[1:], strict=True)]
            parts.append(computed(node.operation, own, weights[part], varied))
        for cut, expected, *found in zip(batched, whole, *parts, strict=True):
            joined = np.concatenate(found) if cut else np.sum(found, axis=0)
            np.testing.assert_allclose(joined, expected, rtol=1e-10, atol=1e-12)


def test_broadcasting_needs_equally_many_axes() -> None:
    class Sum(Broadcasting):
        def forward(self, inputs: object, out: object) -> None: ...

        def partial(self, *_: object) -> np.ndarray:
            return np.zeros(1)

    found = [Sum().splits(shapes) for shapes in ([(-1, 4), (4,)], [(1, 4), (-1, 4)], [(-1, 4), (-1, -1, 4)], [(-1,), (3, 1)])]
    assert found == [True, True, False, False]
