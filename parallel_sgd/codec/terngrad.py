"""TernGrad: minus, zero or plus."""

from .named import TernGrad

__all__ = ["TernGrad"]
