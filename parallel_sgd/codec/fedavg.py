"""Federated averaging and its relatives: workers train alone and average their parameters now and then."""

from __future__ import annotations

from . import compose
from .interfaces import Codec
from .recipes import NamedCodec, Recipes, exchanges_every
from .settings import GlobalSettings

shipped = Recipes(__name__)
get = GlobalSettings.get_params


@shipped.composes
class FedAvg(NamedCodec):
    """`local_batches` (150) batches alone, then w <- sum_i n_i w_i / sum_i n_i through the parameter server, n_i being the
    blocks of worker i. For op_type=ParameterAveragingOptimizer. (4n + 8) / local_batches bytes per batch, up and down.

    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.PS(), send="weights", merge=compose.WeightedMean(), trigger=exchanges_every(150), name=name)


@shipped.composes
class LocalSGD(NamedCodec):
    """`FedAvg` among workers, without a server. Stich, "Local SGD converges fast and communicates little", 2019."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(
            compose.AllToAll(), send="weights", merge=compose.WeightedMean(), trigger=exchanges_every(150), name=name
        )


@shipped.composes
class FedProx(NamedCodec):
    """`FedAvg`, every `local_batches` (150) batches, with local steps also drawn to the common parameters, by `mu` (0.01)
    times the distance. `learn_rate` is by default that of the job's rule. For op_type=ParameterAveragingOptimizer.

    Li et al., "Federated optimization in heterogeneous networks", 2020.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def prox() -> compose.Prox:
            return compose.Prox(get("mu", 0.01), get("learn_rate", None))

        return Codec.of(
            compose.PS(), send="delta", merge=compose.WeightedMean(), trigger=exchanges_every(150), local=prox, name=name
        )


@shipped.composes
class SCAFFOLD(NamedCodec):
    """`local_batches` (150) batches alone, corrected by control variates; 8n bytes up and down. `learn_rate` is by default that
    of the job's rule, SGDOptimizer. For op_type=ParameterAveragingOptimizer.

    Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", 2020.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def drift() -> compose.Drift:
            return compose.Drift(get("learn_rate", None))

        return Codec.of(
            compose.PS(), send="delta", merge=compose.WeightedMean(), trigger=exchanges_every(150), local=drift, name=name
        )


__getattr__ = shipped.on_demand(globals())
