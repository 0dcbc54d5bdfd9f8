"""Convolution: its definition (`operation`), and the ways to compute it (`im2col`, `winograd`)."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.operation.convolution.operation import Convolution, RectifiedConvolution

__all__ = ["Convolution", "RectifiedConvolution"]
__getattr__, __dir__ = lazily(__name__, {
    "operation": "Convolution RectifiedConvolution",
})  # fmt: skip
