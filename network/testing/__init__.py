"""Stand-ins for the world outside, shipped for tests and simulations: time that moves when it is told to."""

from .clock import VirtualClock

__all__ = ["VirtualClock"]
