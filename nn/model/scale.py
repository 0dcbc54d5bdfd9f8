"""Scale of samples and of values to predict: a network learns little from numbers that are large, or all tiny, and that nothing
scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nn.activation.activation import Linear
from nn.loss.regression import DifferenceLoss
from nn.operation import Add, MatMul

if TYPE_CHECKING:
    from nn.model.network import Network

LARGE: Final = 255.0
"""Root of the mean square of a column above which it is told: weights of about 0.1 saturate an activation, or a step of the
rule is far too long. Pixels to 255 are never above it, and most rules learn from them.
"""
SMALL: Final = 1e-3
"""Largest number of a column below which it is told: weights of about 0.1 make nothing of it, and a step of the rule is far too
long for values of this size. Rare ones of a column of zeros are no such column.
"""
_LOOKED_AT: Final = 1 << 20  # numbers, of rows from all over the samples
_MOST_COLUMNS: Final = 3  # that a warning names
# by their names: the modules of layers that a model does not have need not be loaded
_SCALES: Final = frozenset({"Normalization", "BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm"})


def unscaled(model: Network, x: Any, y: Any = None, columns: Sequence[str] | None = None) -> Iterator[str]:
    """Yield a warning on large or tiny columns that go into products with weights as they are, and one on such values to
    predict.

    A model with a layer that normalizes is left alone, and so are samples that another layer reads
    first: ids of an `Embedding` may be large.

    Args:
        model: the model, with one input, before it is trained.
        x: its samples, of shape (n, columns); arrays of other shapes are left alone.
        y: the labels of its one output, or None; looked at where the loss is of differences and `Dense` alone makes the output.
        columns: names of the columns; by default they are numbered from 1.
    """
    graph = model.graph
    if any(kind.__name__ in _SCALES for each in graph.layers for kind in type(each).__mro__):
        return
    readers = [node for node in graph.nodes if graph.placeholder in node.inputs]
    if readers and all(isinstance(node.operation, MatMul) for node in readers) and (wide := _odd(x)):
        if columns is None or len(columns) != x.shape[1]:
            columns = [f"number {column}" for column in range(1, x.shape[1] + 1)]
        named = ", ".join(f"{columns[column]} ({_shown(size)})" for column, size in wide[:_MOST_COLUMNS])
        more = f" and {len(wide) - _MOST_COLUMNS} more" if len(wide) > _MOST_COLUMNS else ""
        yield (
            f"Samples are far from the range of -1 to 1 that a network learns well from, by their typical size: {named}{more}. "
            "Normalization() as the first layer, with its adapt() of the samples, or the transform Normalize() (on the command "
            "line 'normalize') brings each column to mean 0 and deviation 1."
        )
    scored = y is not None and isinstance(getattr(model, "loss", None), DifferenceLoss) and len(graph.outputs) == 1
    if scored and _is_of_products(graph.outputs[0]) and (values := _odd(y.reshape(len(y), -1))):
        oddest = max((size for _, size in values), key=lambda size: abs(math.log(size)))
        yield (
            "The values to predict are far from the range of -1 to 1 that a network learns well, by their typical size: "
            f"{_shown(oddest)}. The transform NormalizeLabels() brings them to mean 0 and deviation 1 "
            "(on the command line 'normalizelabels'); predict() gives such values then, and inputs.restore() of the model "
            "brings them back to the size that they had."
        )


def _is_of_products(output: Any) -> bool:
    """Tell whether nothing but a bias stands behind the product with weights that makes an output."""
    operation = getattr(output, "operation", None)
    if isinstance(operation, (Linear, Add)):
        return _is_of_products(output.inputs[0])
    return isinstance(operation, MatMul)


def _odd(rows: Any) -> list[tuple[int, float]]:
    """Return column and root of the mean square of each column of rows ``(n, columns)`` that is too large, or too small."""
    if getattr(rows, "ndim", 0) != 2 or not rows.size or rows.dtype.kind not in "iuf" or rows.dtype.itemsize == 1:
        return []
    some = np.asarray(rows[:: -(-rows.size // _LOOKED_AT)], np.float64)
    # Numbers that are not finite are told with their place when they are trained.
    with np.errstate(all="ignore"):
        sizes = np.sqrt(np.einsum("ij,ij->j", some, some) / len(some))
        largest = np.abs(some).max(axis=0)
    odd = np.isfinite(sizes) & ((sizes > LARGE) | ((largest < SMALL) & (sizes > 0)))
    return [(int(column), float(sizes[column])) for column in np.flatnonzero(odd)]


def _shown(size: float) -> str:
    return f"{size:,.0f}" if 1 <= size < 1e9 else f"{size:.3g}"
