"""Making of the manifest of a job from its specification, and of the job resources in it, at the submitter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rpc import shipping
from rpc.submit import FAIL, REDUNDANT, pack_executable

from ..codec.choice import CodecChoice
from ..codec.interfaces import Codec
from ..engine.channel import Parameter_Server
from ..engine.job_executor import CHECKPOINT, DATA, EXTRA, MISC, MODEL, OPTIMIZER, RECORD, SETTING, TRANSFER
from ..engine.plan import likes_of
from ..engine.server_executor import ServerExecutor
from ..engine.worker_executor import WorkerExecutor
from ..options.fields import VALUE
from ..options.spec import JobSpec
from .manifest import SERVER_TRANSFER, JobManifest, Resources


def make_manifest(spec: JobSpec, samples_size: int, job: str, record: str = "") -> JobManifest:
    """Make the manifest with which the submitter drives a job, and which it leaves to its standby drivers.

    Args:
        spec: the job.
        samples_size: bytes of the samples.
        job: id of the job.
        record: the part of the record of the run that nodes keep; "" for none.

    Raises: TypeError for code that cannot travel, ValueError for too much of it.
    """
    objects, modules = spec.shipped(), spec.modules()
    return JobManifest(
        job,
        spec.policy,
        spec.min_workers,
        spec.discovery is not None,
        spec.plan.assignment.block_2_node,
        pack_executable(WorkerExecutor, objects, modules),
        pack_executable(ServerExecutor, objects) if spec.options.nodes.has_parameter_server else None,
        shipping.pack({"dataset": objects["dataset"]}).objects,
        job_resources(spec, samples_size, record),
    )


def job_resources(spec: JobSpec, samples_size: int, record: str = "") -> Resources:
    """Return, by request, the resources that all attempts have in common: plain data and arrays. The samples themselves are not
    among them.
    """
    plan, options = spec.plan, spec.options
    return {
        SETTING: {
            "options": options.travelling(VALUE),
            "order": plan.order,
            "limits": list(plan.limits),
            # with the type: the server, which has no model, refuses arrays of another one (SEC-24)
            "variables": [[*like.shape, like.dtype.str] for like in likes_of(spec.model.store)],
            "has_buffers": bool(spec.model.store.buffers),
            "server_keeps": spec.server_keeps,
        },
        MODEL: np.frombuffer(spec.model_file, np.uint8),
        OPTIMIZER: {"op_type": options.op_type.__name__, "gd_type": options.gd_type.__name__},
        DATA: {"name": spec.data.name, "checksum": spec.data.checksum(), "bytes": samples_size},
        MISC: {
            "epochs": options.epoch,  # for readers of a post-mortem
            "carries_on": spec.policy == REDUNDANT,
            # all policies but fail: what follows depends on which node failed
            "awaits_verdict": spec.policy != FAIL,
            "resume": [] if spec.resume is None else list(spec.resume.jobs),
            "before": 0 if spec.resume is None else spec.resume.before,
            RECORD: record,
            "sends_checkpoint": spec.resume is not None and spec.resume.local is not None,
        },
        # values alone: keys may be objects of the user's classes, and travel with the code
        EXTRA: list(plan.codec_parameters.values()),
        TRANSFER: {"codec": _names(plan.codec, plan.default_codec), "sync_type": options.sync_type.__name__},
        SERVER_TRANSFER: {"codec": _names(plan.server_codec, plan.default_codec)},
        CHECKPOINT: _checkpoints(spec),
    }


def _checkpoints(spec: JobSpec) -> dict[str, Any] | None:
    given = None if spec.resume is None else spec.resume.local
    if given is None:
        return None
    nodes = [*spec.plan.assignment.nodes, Parameter_Server]
    # paths of tables mean something only to agents on this machine
    return {**given.resources(nodes), "tables": given.tables(nodes) if spec.is_local else {}}


def _names(codec: CodecChoice, default: type[Codec]) -> str:
    if isinstance(codec, Mapping):
        named: dict[int | str, str] = {variable: kind.__name__ for variable, kind in codec.items()}
        return str(named | {"rest": default.__name__})
    return (codec or default).__name__
