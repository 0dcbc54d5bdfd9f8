"""Identity of a run of a sweep: a hash of all that decides about its result, by which it is known again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from network import VERSION
from rpc.shipping import pack

from ..nodes import InProcessNodes
from ..options.forms import object_text
from ..options.job_options import options as known_options
from ..options.spec import JobSpec
from ..record.hashes import sha256_of
from ..record.job_record import options_of
from ..record.plain import NoText, encoded

__all__ = ["IDENTITY", "identity_of", "parts_of_identity"]
IDENTITY: Final = "identity"
"""Fact in the record of a run (`job.json`) that holds its identity."""
_FORMAT: Final = "psgd.identity/1"
# not of the group that decides about bits, but about seconds and bytes
_BESIDE: Final = ("fault",)
# stand for themselves, or decide only about where a run lies
_APART: Final = ("seed", "resume")


def parts_of_identity(spec: JobSpec) -> dict[str, Any]:
    """Return what decides about the result of a job but for its seed and its first weights, as plain data.

    Args:
        spec: the job.

    Raises: TypeError for an object that can neither be told nor travel.
    """
    options, unnamed = options_of(spec, _told)
    decisive = {name for name, about in known_options() if about.flag is not None and about.flag.decides}
    decisive = (decisive | set(_BESIDE)) - set(_APART)
    steps = () if spec.transform is None else spec.transform.steps
    nodes, plan = spec.options.nodes, spec.plan
    return {
        "format": _FORMAT,
        "options": {name: encoded(value) for name, value in sorted(options.items()) if name in decisive},
        "objects": {name: _hash_of(getattr(spec.asked, name)) for name in sorted(unnamed)},
        "data": spec.data.checksum(),
        "transform": [_text_or_hash(step) for step in steps],
        "workers": plan.assignment.node_count,
        "blocks": plan.assignment.block_count,
        "server": nodes.has_parameter_server,
        "place": _place(nodes),
        "versions": {"Parallel-SGD": VERSION, "NumPy": np.__version__, "Python": platform.python_version()},
    }


def identity_of(parts: Mapping[str, Any], model: str, seed: int) -> str:
    """Return the identity of a run, 64 hexadecimal digits.

    Args:
        parts: `parts_of_identity`.
        model: SHA-256 of the file of the model with which it begins.
        seed: its seed.
    """
    whole = {**parts, "seed": seed, "model": model}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _place(nodes: Any) -> str:
    """Return the kind of nodes: it decides about what seconds mean, and about the order of arrivals."""
    if not isinstance(nodes, InProcessNodes):
        return "agents"
    return f"simulated {nodes.simulated}" if nodes.simulated else "in process"


def _told(path: str) -> str:
    """Return the text that stands for a file: its name and its content, so that it may lie elsewhere."""
    name = os.path.basename(path)
    return f"{name} {sha256_of(Path(path))}" if os.path.isfile(path) else name


def _text_or_hash(part: Any) -> str:
    try:
        return object_text(type(part), part.get_config(), _told)
    except NoText:
        return _hash_of(part)


def _hash_of(value: Any) -> str:
    """Return the hash of an object without a text, as it would travel to a worker."""
    return pack({"object": list(value) if isinstance(value, tuple) else value}).sha256
