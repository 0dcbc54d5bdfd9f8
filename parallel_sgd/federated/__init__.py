"""Federated learning: populations of clients, of which each round trains a sample, with their splits and samplers."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .clients import Clients
    from .clock import ClientClock
    from .description import Description, describe
    from .personal import load_client
    from .samplers import BufferedSampler, FixedSampler, PoissonSampler, Sampler, TimedSampler, WeightedSampler
    from .sizes import LogNormalSizes, PowerLawSizes, Sizes
    from .splits import DirichletSplit, IIDSplit, OwnSplit, RowsSplit, ShardSplit, Split
    from .terms import ClientTerm

__all__ = [
    "BufferedSampler",
    "ClientClock",
    "ClientTerm",
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
    "TimedSampler",
    "WeightedSampler",
    "describe",
    "load_client",
]

lazily(
    __name__,
    {
        "clients": "Clients",
        "clock": "ClientClock",
        "description": "Description describe",
        "personal": "load_client",
        "samplers": "BufferedSampler FixedSampler PoissonSampler Sampler TimedSampler WeightedSampler",
        "sizes": "LogNormalSizes PowerLawSizes Sizes",
        "splits": "DirichletSplit IIDSplit OwnSplit RowsSplit ShardSplit Split",
        "terms": "ClientTerm",
    },
)
