"""Federated learning: populations of clients, of which each round trains a sample, with their splits and samplers."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .clients import Clients
    from .samplers import FixedSampler, PoissonSampler, Sampler, WeightedSampler
    from .sizes import LogNormalSizes, PowerLawSizes, Sizes
    from .splits import DirichletSplit, IIDSplit, RowsSplit, ShardSplit, Split

__all__ = [
    "Clients",
    "DirichletSplit",
    "FixedSampler",
    "IIDSplit",
    "LogNormalSizes",
    "PoissonSampler",
    "PowerLawSizes",
    "RowsSplit",
    "Sampler",
    "ShardSplit",
    "Sizes",
    "Split",
    "WeightedSampler",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "clients": "Clients",
        "samplers": "FixedSampler PoissonSampler Sampler WeightedSampler",
        "sizes": "LogNormalSizes PowerLawSizes Sizes",
        "splits": "DirichletSplit IIDSplit RowsSplit ShardSplit Split",
    },
)
