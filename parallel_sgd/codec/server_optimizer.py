"""An optimizer where gradients or changes of parameters are merged."""

from __future__ import annotations

from nn import gradient_descent

from . import compose
from .interfaces import Codec
from .recipes import NamedCodec, Recipes, exchanges_every
from .settings import GlobalSettings

shipped = Recipes(__name__)
get = GlobalSettings.get_params


@shipped.composes
class ServerAdam(NamedCodec):
    """Gradients up; the parameter server makes steps of Adam (`learn_rate`, 1e-3), parameters come back. For
    op_type=GradientAveragingOptimizer; the workers' own rule is not used.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def adam() -> compose.ServerOpt:
            return compose.ServerOpt(gradient_descent.ADAMOptimizer(get("learn_rate", 1e-3)))

        return Codec.of(compose.PS(), merge=adam, name=name)


@shipped.composes
class FedAdam(NamedCodec):
    """`local_batches` (150) batches alone, then a step of Adam (`learn_rate`, 0.01; 0.9, 0.99, epsilon 1e-3) on the change
    since then. For op_type=ParameterAveragingOptimizer. Reddi et al., "Adaptive federated optimization", 2021.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def adam() -> compose.ServerOpt:
            return compose.ServerOpt(gradient_descent.ADAMOptimizer(get("learn_rate", 1e-2), 0.9, 0.99, 1e-3))

        return Codec.of(compose.PS(), send="delta", merge=adam, trigger=exchanges_every(150), name=name)


def _outer() -> compose.ServerOpt:
    rate, momentum = get("outer_learn_rate", 0.7), get("outer_momentum", 0.9)
    return compose.ServerOpt(gradient_descent.NesterovOptimizer(rate, momentum))


@shipped.composes
class DiLoCo(NamedCodec):
    """`local_batches` (500) batches alone, then an outer step of `outer_learn_rate` (0.7) and `outer_momentum` (0.9), the same
    on all workers. For op_type=ParameterAveragingOptimizer, in the paper with AdamW.

    Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), send="delta", merge=_outer, trigger=exchanges_every(500), name=name)


@shipped.composes
class DiLoCoPS(NamedCodec):
    """`DiLoCo` with the outer step at the parameter server."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.PS(), send="delta", merge=_outer, trigger=exchanges_every(500), name=name)


__getattr__ = shipped.on_demand(globals())
