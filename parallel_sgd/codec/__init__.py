"""Codecs decide what is sent, to whom, and how received data is merged. The guide is README.md in this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .ad_psgd import ADPSGD
    from .async_ps import DCASGD, AsyncPS
    from .choice import SizeAdaptive
    from .fedavg import SCAFFOLD, FedAvg, FedProx, LocalSGD
    from .grad_code import GradCode, GradCodePeers
    from .interfaces import BlockWeight, Codec, netEncapsulation
    from .levels import LevelQuantizer, ShardedLevels
    from .named import (
        BF16,
        CHOCO,
        DGC,
        DPSGD,
        FP16,
        LAQ,
        SMA,
        Adasum,
        EFSign,
        EFSignBothWays,
        FirstCopy,
        FirstCopyInt8,
        Int8,
        Krum,
        Median,
        Natural,
        OneBit,
        OneBitAdam,
        PowerSGD,
        RandomK,
        RandomPair,
        Ring,
        ShardedPS,
        ShardedTopK,
        SignSGD,
        SignSGDPS,
        Signum,
        TopK,
        TopKInt8,
        Tree,
        TrimmedMean,
    )
    from .parameter_server import SyncPS
    from .plain import DummyCodec, Plain
    from .qsgd import QSGD
    from .server_optimizer import DiLoCo, DiLoCoPS, FedAdam, ServerAdam
    from .settings import REQUIRED, GlobalSettings, MissingParameter
    from .terngrad import TernGrad

__all__ = [
    "ADPSGD",
    "BF16",
    "CHOCO",
    "DCASGD",
    "DGC",
    "DPSGD",
    "FP16",
    "LAQ",
    "QSGD",
    "REQUIRED",
    "SCAFFOLD",
    "SMA",
    "Adasum",
    "AsyncPS",
    "BlockWeight",
    "Codec",
    "DiLoCo",
    "DiLoCoPS",
    "DummyCodec",
    "EFSign",
    "EFSignBothWays",
    "FedAdam",
    "FedAvg",
    "FedProx",
    "FirstCopy",
    "FirstCopyInt8",
    "GlobalSettings",
    "GradCode",
    "GradCodePeers",
    "Int8",
    "Krum",
    "LevelQuantizer",
    "LocalSGD",
    "Median",
    "MissingParameter",
    "Natural",
    "OneBit",
    "OneBitAdam",
    "Plain",
    "PowerSGD",
    "RandomK",
    "RandomPair",
    "Ring",
    "ServerAdam",
    "ShardedLevels",
    "ShardedPS",
    "ShardedTopK",
    "SignSGD",
    "SignSGDPS",
    "Signum",
    "SizeAdaptive",
    "SyncPS",
    "TernGrad",
    "TopK",
    "TopKInt8",
    "Tree",
    "TrimmedMean",
    "netEncapsulation",
]

_BESIDE = {
    "BlockWeight": "interfaces",
    "Codec": "interfaces",
    "GlobalSettings": "settings",
    "MissingParameter": "settings",
    "REQUIRED": "settings",
    "SizeAdaptive": "choice",
    "netEncapsulation": "interfaces",
}
_OWN_MODULE = {
    "ADPSGD": "ad_psgd",
    "AsyncPS": "async_ps",
    "DCASGD": "async_ps",
    "DiLoCo": "server_optimizer",
    "DiLoCoPS": "server_optimizer",
    "DummyCodec": "plain",
    "FedAdam": "server_optimizer",
    "FedAvg": "fedavg",
    "FedProx": "fedavg",
    "GradCode": "grad_code",
    "GradCodePeers": "grad_code",
    "LevelQuantizer": "levels",
    "LocalSGD": "fedavg",
    "Plain": "plain",
    "QSGD": "qsgd",
    "SCAFFOLD": "fedavg",
    "ServerAdam": "server_optimizer",
    "ShardedLevels": "levels",
    "SyncPS": "parameter_server",
    "TernGrad": "terngrad",
}

#: The codecs that ship. Their names are known without their code, which is loaded when one is asked for.
SHIPPED = tuple(name for name in __all__ if name not in _BESIDE)

__getattr__, __dir__ = lazily(__name__, {**dict.fromkeys(SHIPPED, "named"), **_OWN_MODULE, **_BESIDE})
