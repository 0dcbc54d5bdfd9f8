"""Public path of `parallel_sgd.engine.channel`."""

from __future__ import annotations

from .engine.channel import Channel, Parameter_Server

__all__ = ["Channel", "Parameter_Server"]
