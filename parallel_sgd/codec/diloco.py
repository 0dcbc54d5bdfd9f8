"""DiLoCo: many steps alone, then one of Nesterov's momentum on what has changed."""

from __future__ import annotations

from nn.gradient_descent import NesterovOptimizer

from .compose import PS, AllToAll, Every, ServerOpt
from .interfaces import Codec
from .settings import GlobalSettings


def _outer() -> ServerOpt:
    rate, momentum = GlobalSettings.get_params("outer_learn_rate", 0.7), GlobalSettings.get_params("outer_momentum", 0.9)
    return ServerOpt(NesterovOptimizer(rate, momentum))


def _every() -> Every:
    return Every(GlobalSettings.get_params("local_batches", 500))


DiLoCo = Codec.of(AllToAll(), send="delta", merge=_outer, trigger=_every, name="DiLoCo")
"""`local_batches` (500) batches alone, then an outer step of `outer_learn_rate` (0.7) and `outer_momentum` (0.9), the same on
all workers. For op_type=ParameterAveragingOptimizer, in the paper with AdamW.

Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023."""

DiLoCoPS = Codec.of(PS(), send="delta", merge=_outer, trigger=_every, name="DiLoCoPS")
"""The outer step at the parameter server."""
