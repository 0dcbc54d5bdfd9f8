"""Words that `parallel()` takes for the parts of a job, so that editors complete them; `named_parts` says what they mean.

An option takes other texts as well: `module.Class`, `file.py:Class`, a number behind `stale:` or `fixed:`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

__all__ = ["AssignmentName", "CodecName", "OptimizerName", "RuleName", "SyncName"]

MYPY: Final = False  # mypy takes it for true: it checks what reads the options when words have become parts
if MYPY:
    AssignmentName: TypeAlias = Any
    CodecName: TypeAlias = Any
    OptimizerName: TypeAlias = Any
    RuleName: TypeAlias = Any
    SyncName: TypeAlias = Any
else:
    AssignmentName: TypeAlias = Literal["iid", "cyclic", "duplicate", "fixed"]
    CodecName: TypeAlias = Literal[
        "adasum", "adpsgd", "asyncps", "bf16", "choco", "dcasgd", "dgc", "diloco", "dilocops", "dpsgd", "dummycodec", "efsign",
        "efsignbothways", "fedadam", "fedavg", "fedprox", "firstcopy", "firstcopyint8", "fp16", "gradcode", "gradcodepeers",
        "int8", "krum", "laq", "levelquantizer", "localsgd", "median", "natural", "onebit", "onebitadam", "plain", "powersgd",
        "qsgd", "randomk", "randompair", "ring", "scaffold", "serveradam", "shardedlevels", "shardedps", "shardedtopk",
        "signsgd", "signsgdps", "signum", "sma", "syncps", "terngrad", "topk", "topkint8", "tree", "trimmedmean",
    ]  # fmt: skip
    OptimizerName: TypeAlias = Literal[
        "doublebuffering", "federated", "ga", "gradientaveraging", "localupdate", "parameteraveraging", "psgd", "shardedpsgd"
    ]
    RuleName: TypeAlias = Literal[
        "adadelta", "adagrad", "adam", "adamw", "gradientdecay", "lamb", "momentum", "nesterov", "rmsprop", "sgd"
    ]
    SyncName: TypeAlias = Literal["ssgd", "asgd"]
