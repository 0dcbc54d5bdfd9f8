"""Federated learning: populations of clients, of which each round trains a sample, with their splits and samplers."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .clients import Clients
    from .description import Description, describe
    from .personal import load_client
    from .samplers import FixedSampler, PoissonSampler, Sampler, WeightedSampler
    from .sizes import LogNormalSizes, PowerLawSizes, Sizes
    from .splits import DirichletSplit, IIDSplit, OwnSplit, RowsSplit, ShardSplit, Split

__all__ = [
    "Clients",
    "Description",
    "DirichletSplit",
    "FixedSampler",
    "IIDSplit",
    "LogNormalSizes",
    "OwnSplit",
    "PoissonSampler",
    "PowerLawSizes",
    "RowsSplit",
    "Sampler",
    "ShardSplit",
    "Sizes",
    "Split",
    "WeightedSampler",
    "describe",
    "load_client",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "clients": "Clients",
        "description": "Description describe",
        "personal": "load_client",
        "samplers": "FixedSampler PoissonSampler Sampler WeightedSampler",
        "sizes": "LogNormalSizes PowerLawSizes Sizes",
        "splits": "DirichletSplit IIDSplit OwnSplit RowsSplit ShardSplit Split",
    },
)
