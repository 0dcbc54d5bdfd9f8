"""Codecs: they decide the data that a worker sends, the nodes that get it, and how received data is merged.

The guide is parallel_sgd/codec/README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from network.names import lazily

if TYPE_CHECKING:
    from . import compose as compose
    from .ad_psgd import ADPSGD
    from .async_ps import DCASGD, AsyncPS
    from .choice import SizeAdaptive
    from .fedavg import SCAFFOLD, FedAvg, FedProx, LocalSGD
    from .grad_code import GradCode, GradCodePeers
    from .interfaces import (
        Answering,
        BlockWeight,
        CheckingPackets,
        Codec,
        Partial,
        Remembering,
        TakingLate,
        Tracking,
        netEncapsulation,
    )
    from .named import (
        BF16,
        CHOCO,
        DGC,
        DPSGD,
        FP16,
        LAQ,
        QSGD,
        SMA,
        Adasum,
        EFSign,
        EFSignBothWays,
        FirstCopy,
        FirstCopyInt8,
        Int8,
        Krum,
        LevelQuantizer,
        Median,
        Natural,
        OneBit,
        OneBitAdam,
        PowerSGD,
        RandomK,
        RandomPair,
        Ring,
        ShardedLevels,
        ShardedPS,
        ShardedTopK,
        SignSGD,
        SignSGDPS,
        Signum,
        TernGrad,
        TopK,
        TopKInt8,
        Tree,
        TrimmedMean,
    )
    from .parameter_server import SyncPS
    from .plain import DummyCodec, Plain
    from .server_optimizer import DiLoCo, DiLoCoPS, FedAdam, ServerAdam
    from .settings import REQUIRED, GlobalSettings, MissingParameter
    from .traits import PacketTraits, Traits

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
    "Answering",
    "AsyncPS",
    "BlockWeight",
    "CheckingPackets",
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
    "PacketTraits",
    "Partial",
    "Plain",
    "PowerSGD",
    "RandomK",
    "RandomPair",
    "Remembering",
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
    "TakingLate",
    "TernGrad",
    "TopK",
    "TopKInt8",
    "Tracking",
    "Traits",
    "Tree",
    "TrimmedMean",
    "netEncapsulation",
]

# For editors and type checkers; the readers take other texts, too: `module.Class`, `file.py:Class`.
CodecName: TypeAlias = Literal[
    "adasum",
    "adpsgd",
    "asyncps",
    "bf16",
    "choco",
    "dcasgd",
    "dgc",
    "diloco",
    "dilocops",
    "dpsgd",
    "dummycodec",
    "efsign",
    "efsignbothways",
    "fedadam",
    "fedavg",
    "fedprox",
    "firstcopy",
    "firstcopyint8",
    "fp16",
    "gradcode",
    "gradcodepeers",
    "int8",
    "krum",
    "laq",
    "levelquantizer",
    "localsgd",
    "median",
    "natural",
    "onebit",
    "onebitadam",
    "plain",
    "powersgd",
    "qsgd",
    "randomk",
    "randompair",
    "ring",
    "scaffold",
    "serveradam",
    "shardedlevels",
    "shardedps",
    "shardedtopk",
    "signsgd",
    "signsgdps",
    "signum",
    "sma",
    "syncps",
    "terngrad",
    "topk",
    "topkint8",
    "tree",
    "trimmedmean",
]

_BESIDE = {
    "compose": "",
    "choice": "SizeAdaptive",
    "interfaces": "Answering BlockWeight CheckingPackets Codec Partial Remembering TakingLate Tracking netEncapsulation",
    "settings": "REQUIRED GlobalSettings MissingParameter",
    "traits": "PacketTraits Traits",
}
_OWN_MODULE = {
    "ad_psgd": "ADPSGD",
    "async_ps": "AsyncPS DCASGD",
    "fedavg": "FedAvg FedProx LocalSGD SCAFFOLD",
    "grad_code": "GradCode GradCodePeers",
    "parameter_server": "SyncPS",
    "plain": "DummyCodec Plain",
    "server_optimizer": "DiLoCo DiLoCoPS FedAdam ServerAdam",
}

#: The codecs that ship. Their names are known without their code, which is loaded when one is asked for.
SHIPPED = tuple(name for name in __all__ if name not in " ".join(_BESIDE.values()).split())
_NAMED = [name for name in SHIPPED if name not in " ".join(_OWN_MODULE.values()).split()]

lazily(__name__, {"named": " ".join(_NAMED), **_OWN_MODULE, **_BESIDE})
