"""Convolution: its definition (`operation`), the map back (`transposed`), and its ways (`im2col`, `winograd`, `depthwise`,
`banded`)."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.operation.convolution.operation import Convolution, RectifiedConvolution
    from nn.operation.convolution.transposed import TransposedConvolution

__all__ = ["Convolution", "RectifiedConvolution", "TransposedConvolution"]
lazily(__name__, {
    "operation": "Convolution RectifiedConvolution", "transposed": "TransposedConvolution",
})  # fmt: skip
