"""Graphs compiled for one input shape."""

from nn.plan.layout import Whole
from nn.plan.plan import OnGradient, Plan

__all__ = ["OnGradient", "Plan", "Whole"]
