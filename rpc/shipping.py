"""Code and objects that travel from the submitter to the job processes: the only module that packs or loads code.

What the nodes have already (classes of this project) goes by name and configuration, as data; only a user's own classes and
functions are pickled, by value. A job without any needs no pickle at all, so nodes that refuse shipped code can run it.
Everything that comes back, or goes between workers, is data: instances are of classes in the table that both sides share.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import msgpack

from network.errors import Rejected
from network.values import DTYPES, decode, encode
from network.wire import allocate, unpack

from .reach import OWN_PACKAGES, Reach, is_user_module

MAX_CODE_BYTES = 8 << 20
ANY_CODE, NO_CODE = "any", "none"


@dataclass(frozen=True)
class _ByName:
    """A class or function that every node has."""

    module: str
    name: str


@dataclass(frozen=True)
class _Instance:
    """An object of a class that every node has, with its fields."""

    cls: _ByName
    state: dict[str, Any]


@dataclass(frozen=True)
class _Pickled:
    """The object of that number in the pickled part."""

    number: int


_PARTS = (_ByName, _Instance, _Pickled)


@dataclass(frozen=True)
class Bundle:
    """Packed objects: `objects` is data, `code` a pickle (empty when no user code is among them), `classes` the table."""

    objects: bytes
    code: bytes
    classes: tuple[type, ...]

    @property
    def sha256(self) -> str:
        """Hash of both parts, for audit logs and allow-lists."""
        return bundle_hash(self.objects, self.code)


def bundle_hash(objects: bytes, code: bytes) -> str:
    """SHA-256 over the lengths and bytes of both parts, in hex."""
    return hashlib.sha256(len(objects).to_bytes(8, "big") + objects + code).hexdigest()


def pack(objects: dict[str, Any]) -> Bundle:
    """Make `objects` ready to travel.

    Raises: TypeError naming what cannot, ValueError for an import that cannot be followed or more than 8 MiB of code.
    """
    pickled: list[Any] = []
    described = _describe(objects, pickled, 0)
    tree, arrays = encode(described, _PARTS)
    data = [msgpack.packb([[[a.dtype.str, *a.shape] for a in arrays], tree])]
    data += [a.tobytes() for a in arrays]
    packed = len(data[0]).to_bytes(8, "big") + b"".join(data)
    classes: list[type] = []
    code = _pickle(pickled, classes) if pickled else b""
    if len(packed) + len(code) > MAX_CODE_BYTES:
        raise ValueError(
            f"The code of a job may have {MAX_CODE_BYTES} bytes, got {len(packed) + len(code)}: send data as data."
        )
    return Bundle(packed, code, tuple(classes))


def _describe(item: Any, pickled: list[Any], depth: int) -> Any:
    if depth > 32:
        raise TypeError("The objects of a job are nested more than 32 levels, or into themselves.")
    kind = type(item)
    if item is None or kind in (bool, int, float, str, bytes) or (hasattr(item, "dtype") and _is_plain_array(item)):
        return item
    if kind in (list, tuple):
        return kind([_describe(v, pickled, depth + 1) for v in item])
    if kind is dict and all(type(k) in (int, str) for k in item):
        return {k: _describe(v, pickled, depth + 1) for k, v in item.items()}
    if isinstance(item, (type, types.FunctionType)):
        return _by_name(item) or _keep(item, pickled)
    named = _by_name(kind)
    if named is not None and not isinstance(item, (list, tuple, dict, set, str, bytes, int, float)):
        return _Instance(named, {k: _describe(v, pickled, depth + 1) for k, v in vars(item).items()})
    return _keep(item, pickled)


def _is_plain_array(item: Any) -> bool:
    return type(item).__module__ == "numpy" and item.dtype.str in DTYPES


def _by_name(item: Any) -> _ByName | None:
    module, name = item.__module__ or "", item.__qualname__
    if module.partition(".")[0] not in OWN_PACKAGES or "<" in name:
        return None
    return _ByName(module, name)


def _keep(item: Any, pickled: list[Any]) -> _Pickled:
    for number, known in enumerate(pickled):
        if known is item:
            return _Pickled(number)
    pickled.append(item)
    return _Pickled(len(pickled) - 1)


def _pickle(items: list[Any], classes: list[type]) -> bytes:
    """One pickle for all objects and their class table, so that classes in both are identical; fills `classes`."""
    reach = Reach(items)
    by_value = [m for m in sorted(reach.modules) if m != "__main__" and m not in cloudpickle.list_registry_pickle_by_value()]
    for name in by_value:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    try:
        classes += [reach.classes[key] for key in sorted(reach.classes) if _travels(reach.classes[key])]
        code: bytes = cloudpickle.dumps((items, classes))
    except Exception as error:
        raise TypeError(f"The code of this job cannot travel: {error}") from error
    finally:
        for name in by_value:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
    return code


def _travels(cls: type) -> bool:
    """Whether a class can be pickled; a neighbour in a module that cannot is left out of the table."""
    try:
        cloudpickle.dumps(cls)
    except Exception:  # noqa: BLE001  pickling runs arbitrary reducers, which raise what they like
        return False
    return is_user_module(cls.__module__)


def load(objects: bytes, code: bytes, policy: str = ANY_CODE) -> tuple[dict[str, Any], Sequence[type]]:
    """The objects of a bundle and its class table. Call it in a job process only.

    `policy` is "any", "none" (bundles without user code only), or the path of a file with allowed SHA-256 sums.
    Raises: Rejected by policy; ImportError naming a module that this node lacks; ProtocolError for a malformed bundle.
    """
    if code:
        _check_policy(bundle_hash(objects, code), policy)
    pickled, classes = cloudpickle.loads(code) if code else ((), ())
    size = int.from_bytes(objects[:8], "big")
    layout, tree = unpack(objects[8 : 8 + size])
    arrays, position = allocate(layout, MAX_CODE_BYTES), 8 + size
    for array in arrays:
        array.reshape(-1).view("u1")[:] = memoryview(objects)[position : position + array.nbytes]
        position += array.nbytes
    restored = _restore(decode(tree, arrays, _PARTS), pickled)
    return restored, classes


def _check_policy(sha256: str, policy: str) -> None:
    if policy == ANY_CODE:
        return
    if policy == NO_CODE:
        raise Rejected("This node takes no shipped code (--no-shipped-code), and the job brings classes of its own.")
    if sha256 not in Path(policy).read_text(encoding="utf-8").split():
        raise Rejected(f"This node does not allow the job's code: its hash {sha256} is not in {policy} (--allow-code).")


def _restore(item: Any, pickled: Sequence[Any]) -> Any:
    kind = type(item)
    if kind in (list, tuple):
        return kind([_restore(v, pickled) for v in item])
    if kind is dict:
        return {k: _restore(v, pickled) for k, v in item.items()}
    if kind is _ByName:
        return _find(item)
    if kind is _Instance:
        instance = object.__new__(_find(item.cls))
        instance.__dict__.update({k: _restore(v, pickled) for k, v in item.state.items()})
        return instance
    if kind is _Pickled:
        return pickled[item.number]
    return item


def _find(reference: _ByName) -> Any:
    """A class or function of this project, by name."""
    if reference.module.partition(".")[0] not in OWN_PACKAGES:
        raise Rejected(f"A job may name classes of this project only, got {reference.module}.{reference.name}.")
    found: Any = importlib.import_module(reference.module)
    for part in reference.name.split("."):
        found = getattr(found, part)
    if not isinstance(found, (type, types.FunctionType)) or found.__module__ != reference.module:
        raise Rejected(f"{reference.module}.{reference.name} is neither a class nor a function of this project.")
    return found
