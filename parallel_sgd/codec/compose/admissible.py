"""Whether a codec suits the optimizer and the rule of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nn.gradient_descent import IGradientDescent
from nn.optimizer import IOptimizer
from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.codec.settings import GlobalSettings, MissingParameter
from parallel_sgd.profiles import IIDBlockAssignment

from .composed import Composed
from .composition import Composition
from .refusals import error_fed, momentum_of


def check(
    kind: type[Codec], rule: IGradientDescent, op_type: type[IOptimizer], parameters: Mapping[Any, Any] | None = None
) -> list[str]:
    """Return what speaks against a codec with this rule and optimizer, each with the fix in words.

    It is possible, and known to train badly: momentum after a merge of what error feedback sends late. `parameters` are the
    job's `codec_extra_parameters`.
    """
    puts = getattr(op_type, "puts", "")
    composition = getattr(kind, "composition", None)
    if not (issubclass(kind, Composed) and isinstance(composition, Composition)) or puts != "gradients":
        return []
    with GlobalSettings.use(IIDBlockAssignment(4), parameters):
        try:
            parts = composition.make()
        except MissingParameter:
            return []
    momentum = momentum_of(rule)
    if not momentum or not error_fed(parts) or parts.updates:
        return []
    return [
        f"{kind.__name__} sends later what a packet leaves out, and {type(rule).__name__} with {momentum} after the merge "
        f"counts that many times over, at the cost of much accuracy: use op_type=LocalUpdateOptimizer, which applies the rule "
        f"before the codec, or SGDOptimizer with Momentum(0.9) | in front of the error feedback, or DGCMemory in its place"
    ]
