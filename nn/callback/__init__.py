"""Callbacks: what `Model.fit` tells while it trains."""

from nn.callback.callback import Callback

__all__ = ["Callback"]
