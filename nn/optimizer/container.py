"""What to build an optimizer from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.interface import IOptimizer
from nn.value import VariableStore


@dataclass(frozen=True)
class OpContainer:
    """An optimizer type, a rule type and the rule's arguments: a tuple, the learning rate first, or a dict by name.

    >>> gd, op = nn.gradient_descent, nn.optimizer
    >>> op.OpContainer(op.GDOptimizer, gd.ADAMOptimizer, gd_params=(1e-3,)).rule().learn_rate
    0.001
    >>> op.OpContainer(op.PSGDOptimizer, gd.SGDOptimizer, {"learn_rate": gd.Cosine(0.1, 500), "clip_norm": 1}).rule().clip_norm
    1.0
    """

    op_type: type[IOptimizer]
    gd_type: type[IGradientDescent]
    gd_params: tuple[Any, ...] | Mapping[str, Any] = ()

    def __post_init__(self) -> None:
        for name, kind in (("op_type", IOptimizer), ("gd_type", IGradientDescent)):
            value = getattr(self, name)
            if not (isinstance(value, type) and issubclass(value, kind)):
                raise TypeError(f"OpContainer '{name}' must be a class derived from {kind.__name__}, got {value!r}")
        if not isinstance(self.gd_params, (tuple, list, Mapping)):
            raise TypeError(f"OpContainer 'gd_params' must be a tuple of arguments or a dict of them, got {self.gd_params!r}")

    def rule(self) -> IGradientDescent:
        """Return a new rule; raise TypeError where the parameters do not suit it."""
        given = self.gd_params
        try:
            return self.gd_type(**given) if isinstance(given, Mapping) else self.gd_type(*given)
        except TypeError as error:
            raise TypeError(f"{self.gd_type.__name__} cannot be built from gd_params={given!r}: {error}") from error

    def build(self, store: VariableStore, exchange: Exchange | None = None) -> IOptimizer:
        """Return a new optimizer with a new rule, for one training process."""
        return self.op_type(self.rule(), store, exchange)
