"""QSGD: few bits per number, unbiased."""

from .named import QSGD

__all__ = ["QSGD"]
