"""What the submitter replies to the requests of its executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rpc.coordinator import GROUP_SLACK_SECONDS
from rpc.submission import START_SECONDS

from .checkpoint.given import GivenCheckpoint
from .codec.bank import CodecChoice
from .codec.interfaces import Codec
from .job_executor import CHECKPOINT, DATA, EXTRA, MISC, MODEL, OPTIMIZER, SAMPLES, SETTING, TRANSFER
from .node_ids import Parameter_Server
from .recovery import REDUNDANT
from .spec import JobSpec
from .training import Samples


def answers(spec: JobSpec, arrays: Samples) -> Callable[[int, str], Any]:
    """A function of node and request."""
    plan = spec.plan
    model = np.frombuffer(spec.model.to_bytes(), np.uint8)
    size = sum(a.nbytes for a in arrays)
    # the server starts before its workers, which may take all the time that they are given
    start_seconds = plan.assignment.node_count * (size + len(model)) / spec.bandwidth + GROUP_SLACK_SECONDS + START_SECONDS
    replies: dict[str, Any] = {
        SETTING: {
            "block_size": plan.block_size,
            "seed": plan.seed,
            "attempt": plan.attempt,
            "variables": len(spec.model.trainable_variables()),
            "has_buffers": bool(spec.model.store.buffers),
            "server_keeps": spec.server_keeps,
        },
        MODEL: model,
        OPTIMIZER: {"op_type": plan.optimizer.op_type.__name__, "gd_type": plan.optimizer.gd_type.__name__},
        DATA: {"name": spec.data.name, "checksum": spec.data.checksum(), "bytes": size},
        MISC: {
            "title": spec.title,
            "epochs": plan.epochs,
            "timeout_ms": plan.timeout_ms,
            "start_seconds": start_seconds,
            "carries_on": spec.on_failure == REDUNDANT,
            "fault": str(spec.fault),
            "checkpoint_every": plan.checkpoint_every,
            "resume": spec.resume if isinstance(spec.resume, str) else "",
            "sends_checkpoint": isinstance(spec.resume, GivenCheckpoint),
        },
        EXTRA: dict(plan.codec_parameters),
        SAMPLES: [np.asarray(a) for a in arrays],
        TRANSFER: {"codec": _names(plan.codec, plan.default_codec), "sync_type": plan.sync_type.__name__},
    }
    to_server = {**replies, TRANSFER: {"codec": _names(spec.server_codec, plan.default_codec)}}

    def answer(node: int, request: str) -> Any:
        if request == CHECKPOINT and isinstance(spec.resume, GivenCheckpoint):
            return spec.resume.reply(node)
        return (to_server if node == Parameter_Server else replies)[request]

    return answer


def _names(codec: CodecChoice, default: type[Codec]) -> str:
    """For the log."""
    if isinstance(codec, Mapping):
        return str({variable: kind.__name__ for variable, kind in codec.items()})
    return (codec or default).__name__
