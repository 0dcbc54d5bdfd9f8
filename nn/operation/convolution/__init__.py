"""Convolution: what it computes (`operation`), and the ways to compute it (`columns`, `winograd`)."""

from nn.operation.convolution.operation import Convolution, RectifiedConvolution

__all__ = ["Convolution", "RectifiedConvolution"]
