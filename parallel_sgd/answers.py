"""What the driver of a job replies to the requests of its executors, in every attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rpc.recovery import FAIL, REDUNDANT
from rpc.submit.coordinator import GROUP_SLACK_SECONDS
from rpc.submit.submission import START_SECONDS

from .codec.bank import CodecChoice
from .codec.interfaces import Codec
from .job_executor import CHECKPOINT, DATA, EXTRA, MISC, MODEL, OPTIMIZER, SAMPLES, SETTING, TRANSFER
from .node_ids import Parameter_Server
from .spec import JobSpec
from .training import Samples
from .unusable import likes_of

SERVER_TRANSFER = "server_transfer"
Replies = Mapping[str, Any]


def replies_of(spec: JobSpec, samples_size: int) -> Replies:
    """By request, what all attempts have in common: plain data and arrays. The samples themselves are not among it."""
    plan = spec.plan
    return {
        SETTING: {
            "block_size": plan.block_size,
            "seed": plan.seed,
            "order": plan.order,
            "class_weight": None if plan.class_weight is None else dict(plan.class_weight),
            "variables": [[*like.shape, like.dtype.str] for like in likes_of(spec.model.store)],
            "has_buffers": bool(spec.model.store.buffers),
            "server_keeps": spec.server_keeps,
        },
        MODEL: np.frombuffer(spec.model.to_bytes(), np.uint8),
        OPTIMIZER: {"op_type": plan.optimizer.op_type.__name__, "gd_type": plan.optimizer.gd_type.__name__},
        DATA: {"name": spec.data.name, "checksum": spec.data.checksum(), "bytes": samples_size},
        MISC: {
            "title": spec.title,
            "epochs": plan.epochs,
            "timeout_ms": plan.timeout_ms,
            "carries_on": spec.on_failure == REDUNDANT,
            "awaits_verdict": spec.on_failure != FAIL,
            "fault": str(spec.fault),
            "checkpoint_every": plan.checkpoint_every,
            "commit_every": plan.commit_every,
            "resume": [] if spec.resume is None else list(spec.resume.jobs),
            "sends_checkpoint": spec.resume is not None and spec.resume.given is not None,
        },
        EXTRA: list(plan.codec_parameters.values()),
        TRANSFER: {"codec": _names(plan.codec, plan.default_codec), "sync_type": plan.sync_type.__name__},
        SERVER_TRANSFER: {"codec": _names(spec.server_codec, plan.default_codec)},
        CHECKPOINT: _checkpoints(spec),
    }


def _checkpoints(spec: JobSpec) -> dict[str, Any] | None:
    given = None if spec.resume is None else spec.resume.given
    if given is None:
        return None
    nodes = [*spec.plan.assignment.nodes, Parameter_Server]
    return {**given.replies(nodes), "tables": given.tables(nodes) if spec.is_local else {}}


def package_bytes(replies: Replies) -> int:
    """What is sent to each worker at most."""
    return int(replies[DATA]["bytes"]) + len(replies[MODEL])


def answers(
    replies: Replies, attempt: int, workers: int, bandwidth: float, samples: Callable[[], Samples]
) -> Callable[[int, str], Any]:
    """A function of node and request, for one attempt with so many workers; `samples` is called for a node without them."""
    # the server starts before its workers, which may take all the time that they are given
    start_seconds = workers * package_bytes(replies) / bandwidth + GROUP_SLACK_SECONDS + START_SECONDS

    def answer(node: int, request: str) -> Any:
        if request == SETTING:
            return {**replies[SETTING], "attempt": attempt, "workers": workers}
        if request == MISC:
            return {**replies[MISC], "start_seconds": start_seconds}
        if request == SAMPLES:
            return [np.asarray(array) for array in samples()]
        if request == CHECKPOINT:
            sent = replies[CHECKPOINT]
            content = sent["contents"].get(sent["of"].get(node))
            tables = sent["tables"].get(node, "")
            return {"content": content, "whole": sent["whole"], "said": sent["said"], "tables": tables}
        return replies[SERVER_TRANSFER if request == TRANSFER and node == Parameter_Server else request]

    return answer


def _names(codec: CodecChoice, default: type[Codec]) -> str:
    """For the log."""
    if isinstance(codec, Mapping):
        return str({variable: kind.__name__ for variable, kind in codec.items()})
    return (codec or default).__name__
