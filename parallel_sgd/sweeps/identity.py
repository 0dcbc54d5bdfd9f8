"""Identity of a run of a sweep: a hash of all that decides about its result, by which it is known again."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from network import VERSION
from nn.registry import custom_classes
from rpc.shipping import content_hash

from ..nodes import InProcessNodes
from ..options.forms import object_text
from ..options.job_options import options as known_options
from ..options.names import place_in, split_objects
from ..options.spec import JobSpec
from ..record.job_record import options_of, texts_in
from ..record.plain import NoText, encoded

__all__ = ["identity_of", "parts_of_identity"]
_FORMAT: Final = "psgd.identity/1"
# of the group of faults: it decides about seconds and bytes
_BESIDE: Final = ("fault",)
# the seed stands for itself, and no run of a sweep goes on with another one
_APART: Final = ("seed", "resume")


def parts_of_identity(spec: JobSpec) -> dict[str, Any]:
    """Return what decides about the result of a job but for its seed and its first weights, as plain data.

    Args:
        spec: the job.

    Raises: TypeError for an object that can neither be told nor travel.
    """
    options, unnamed = options_of(spec, str)
    decisive = {name for name, about in known_options() if about.flag is not None and about.flag.decides}
    decisive = (decisive | set(_BESIDE)) - set(_APART)
    told = {name: value for name, value in options.items() if name in decisive}
    # by content, not by file: a script that gets a further setting has the same codecs as before
    code = {name: getattr(spec.asked, name) for name in (*unnamed, *told) if name in unnamed or _names_code(told[name])}
    steps = () if spec.transform is None else spec.transform.steps
    model = spec.model
    own = custom_classes(model, *model._aim.losses, *model.metrics)
    clients = spec.options.clients
    return {
        "format": _FORMAT,  # another form of the hash knows no run of before
        "options": {name: encoded(value) for name, value in sorted(told.items()) if name not in code},
        "code": {name: _hash_of(value) for name, value in sorted({**code, **own}.items())},
        "data": spec.data.checksum(),
        "transform": [_text_or_hash(step) for step in steps],
        "workers": spec.plan.assignment.node_count,
        "blocks": spec.plan.assignment.block_count,
        "server": spec.options.nodes.has_parameter_server,
        "place": _place(spec.options.nodes),
        # the times of clients may be in a file, of which options tell the path
        **({} if clients is None or clients.clock is None else {"clock": clients.clock.identity}),
        # other versions may compute other bits
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
    # a text may have lone surrogates, as names of files do
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()


def _place(nodes: Any) -> list[str]:
    """Return the kind of nodes: it decides about the meaning of seconds, and about the order of arrivals."""
    if not isinstance(nodes, InProcessNodes):
        return ["agents"]
    return ["simulated", hashlib.sha256(nodes.clock.encode()).hexdigest()] if nodes.simulated else ["in process"]


def _names_code(value: Any) -> bool:
    return any(place_in(part) for text in texts_in(value) for part in split_objects(text))


def _text_or_hash(part: Any) -> str:
    try:
        text = object_text(type(part), part.get_config(), str)
    except NoText:
        return _hash_of(part)
    return _hash_of(part) if place_in(text) else text


def _hash_of(value: Any) -> str:
    """Return the hash of an object and its code."""
    return content_hash({"object": list(value) if isinstance(value, tuple) else value})
