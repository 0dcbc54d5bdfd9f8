"""Codecs decide what is sent, to whom, and how received data is merged. The guide is README.md in this folder."""

from __future__ import annotations

from .ad_psgd import ADPSGD
from .async_ps import DCASGD, AsyncPS
from .cast import BF16, FP16
from .dgc import DGC
from .diloco import DiLoCo, DiLoCoPS
from .ef_sign import EFSign, EFSignBothWays
from .fedavg import FedAvg, LocalSGD
from .fedprox import FedProx
from .first_copy import FirstCopy, FirstCopyInt8
from .gossip import CHOCO, DPSGD
from .grad_code import GradCode, GradCodePeers
from .int8 import Int8
from .interfaces import BlockWeight, Codec, netEncapsulation
from .lag import LAQ
from .levels import LevelQuantizer, ShardedLevels
from .natural import Natural
from .one_bit import OneBit
from .one_bit_adam import OneBitAdam
from .parameter_server import SyncPS
from .plain import DummyCodec, Plain
from .powersgd import PowerSGD
from .qsgd import QSGD
from .random_k import RandomK
from .random_pair import RandomPair
from .ring import Ring
from .robust import Adasum, Krum, Median, TrimmedMean
from .scaffold import SCAFFOLD
from .server_optimizer import FedAdam, ServerAdam
from .settings import REQUIRED, GlobalSettings, MissingParameter
from .sharded_ps import ShardedPS, ShardedTopK
from .signsgd import SignSGD, SignSGDPS, Signum
from .size_adaptive import SizeAdaptive
from .sma import SMA
from .terngrad import TernGrad
from .topk import TopK, TopKInt8
from .tree import Tree

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
