"""Scale of samples before the first epoch: columns of large numbers that no layer and no transform scales train to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from nn.model.network import Network

LARGE: Final = 1000.0
"""Root of the mean square of a column from which on it is told: pixels to 255 are below, and with most rules still train."""
_LOOKED_AT: Final = 1000
# by their names: the modules of layers that a model does not have need not be loaded
_SCALES: Final = frozenset({"Normalization", "BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm"})


def large_columns(model: Network, inputs: Sequence[Any], columns: Sequence[str] | None = None) -> str:
    """Return a sentence on columns of large numbers that go into a `Dense` layer as they are, with the remedy; "" for none.

    Of up to 1,000 rows the root of the mean square is taken for each column. Models with a layer that normalizes, with several
    inputs, or with another layer first are left alone: these may scale the samples.

    Args:
        model: the model, not yet trained.
        inputs: its arrays of samples.
        columns: names of the columns; by default they are numbered.
    """
    layers = list(model.graph.layers)
    kinds = {kind.__name__ for each in layers for kind in type(each).__mro__}
    if len(inputs) != 1 or not layers or type(layers[0]).__name__ != "Dense" or kinds & _SCALES:
        return ""
    x = inputs[0]
    if getattr(x, "ndim", 0) != 2 or x.dtype.kind not in "iuf":
        return ""
    rows = np.asarray(x[:_LOOKED_AT], np.float64)
    # Numbers that are not finite are told with their place when they are trained.
    with np.errstate(all="ignore"):
        sizes = np.sqrt(np.mean(rows * rows, axis=0))
    large = np.flatnonzero(np.isfinite(sizes) & (sizes >= LARGE))
    if not large.size:
        return ""
    first = int(large[np.argmax(sizes[large])])
    name = f"column {first}" if columns is None or len(columns) != len(sizes) else f"column {columns[first]!r}"
    more = f", and {large.size - 1} more of {LARGE:,.0f} and above" if large.size > 1 else ""
    return (
        f"samples have numbers that are too large to train on as they are: those of {name} are some {sizes[first]:,.0f}{more}. "
        f"Take Normalization() as the first layer, with its adapt() of the samples, or the transform Normalize()"
    )
