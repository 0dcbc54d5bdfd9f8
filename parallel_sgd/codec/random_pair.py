"""Pairs of workers average what they have."""

from __future__ import annotations

from .compose import RandomPair as RandomPairs
from .interfaces import Codec

RandomPair = Codec.of(RandomPairs(), send="weights", name="RandomPair")
"""w <- (own + partner) / 2 after every local step, with another partner each time; 4n bytes. For
op_type=ParameterAveragingOptimizer. Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", 2018."""
