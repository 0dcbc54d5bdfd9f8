"""Shipping of code and objects from the submitter to the job processes: the only module that packs or loads code.

Objects that the nodes have already (classes of this project) go by name and configuration, as data; only a user's own classes
and functions are pickled, by value. A job without any needs no pickle at all, so nodes that refuse shipped code can run it.
Everything that comes back, or goes between workers, is data: instances are of classes in the table that both sides share. The
one exception is at the end: results of tasks for a submitter that has asked to load the nodes' pickles.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import importlib
import io
import itertools
import pickletools
import re
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import msgpack
import numpy as np

from network.errors import ProtocolError, Rejected
from network.values import DTYPES, decode, encode
from network.wire import allocate, unpack

from . import source_lines
from .code_closure import CodeClosure, is_user_module, user_modules
from .protocol import ANY_CODE, MAX_TEXT, NO_CODE
from .support.files import read_regular
from .support.immutable import Immutable

MAX_CODE_BYTES = 8 << 20
MAX_TAGS = (
    100_000  # tuples, dicts, arrays, classes and instances among the objects; each is counted, made and looked at by itself
)
SOURCE_BYTES = 256 << 10  # of all texts; a record must not keep a job from starting


class _ByName(Immutable):
    """Class or function that every node has."""

    module: str
    name: str


class _Instance(Immutable):
    """Object of a class that every node has, with its fields."""

    cls: _ByName
    state: dict[str, Any]


class _Pickled(Immutable):
    """Object of that number in the pickled part."""

    number: int


_PARTS = (_ByName, _Instance, _Pickled)
_TAG = re.compile(rb"\x81[\xa0-\xbf\xd9-\xdb]")  # the begin of each in msgpack: a map with one key, a string
_packing = threading.Lock()  # cloudpickle's register of modules is one for all threads


@dataclass(frozen=True)
class Bundle:
    """Packed objects.

    Args:
        objects: data.
        code: a pickle (empty when no user code is among the objects).
        classes: the class table.
        sources: text of the user's modules.
        modules: names of modules of ours that loading and running it imports; they are on every node.
    """

    objects: bytes
    code: bytes
    classes: tuple[type, ...]
    sources: dict[str, str] = field(default_factory=dict, compare=False)
    modules: tuple[str, ...] = field(default=(), compare=False)

    @property
    def sha256(self) -> str:
        """Hash of both parts, for audit logs and allow-lists."""
        return bundle_hash(self.objects, self.code)


def bundle_hash(objects: bytes, code: bytes) -> str:
    """Return SHA-256 over both parts, in hex: equal for equal code and objects, once Python has compiled the user's modules."""
    # the length between the parts: no other split of the same bytes has this hash
    return hashlib.sha256(len(objects).to_bytes(8, "big") + objects + code).hexdigest()


def pack(objects: dict[str, Any]) -> Bundle:
    """Make `objects` ready to travel.

    Raises: TypeError naming the object that cannot, ValueError for an import that cannot be followed, more than 8 MiB of code,
    or more than 100,000 tuples, dicts, arrays and instances.
    """
    pickled: list[Any] = []
    # what can go as data does, so that the pickle has only what needs one
    described = _describe(objects, pickled, 0)
    tree, arrays = encode(described, _PARTS)
    data = [msgpack.packb([[[a.dtype.str, *a.shape] for a in arrays], tree])]
    # here as on the node: a job that no node would take is refused before it is sent
    _check_tags(data[0])
    data += [a.tobytes() for a in arrays]
    packed = len(data[0]).to_bytes(8, "big") + b"".join(data)
    classes: list[type] = []
    code = _pickle(pickled, classes) if pickled else b""
    if len(packed) + len(code) > MAX_CODE_BYTES:
        raise ValueError(
            f"The code of a job may have {MAX_CODE_BYTES} bytes, got {len(packed) + len(code)}: send data as data."
        )
    return Bundle(packed, code, tuple(classes), _sources([*pickled, *classes]))


def content_hash(objects: dict[str, Any]) -> str:
    """Return SHA-256 over objects and the code that they need, in hex: equal for equal code wherever its lines stand.

    Unlike `Bundle.sha256` it does not depend on the place of the code in its files, nor on whether Python has just compiled it.

    Args:
        objects: as `pack` takes them.

    Raises: as `pack`.
    """
    pickled: list[Any] = []
    tree, arrays = encode(_describe(objects, pickled, 0), _PARTS)
    digest = hashlib.sha256(msgpack.packb([[[a.dtype.str, *a.shape] for a in arrays], tree]))
    for array in arrays:
        digest.update(array.tobytes())
    if pickled:
        buffer = io.BytesIO()
        reach = CodeClosure(pickled)
        with _packing, _by_value():
            try:
                _LinelessPickler(buffer, reach.names).dump(pickled)
            except Exception as error:
                raise TypeError(f"The code of this job cannot be told apart from other code: {error}") from error
        for part in _canonical(buffer.getvalue()):
            digest.update(part)
    return digest.hexdigest()


def _canonical(data: bytes) -> Iterator[bytes]:
    """Yield the operations of a pickle, each text in full: equal texts are one object or several, as Python happens to have
    compiled or loaded the code.
    """
    memo: list[object] = []
    count, last = 0, object()
    for operation, argument, _ in pickletools.genops(data):
        if operation.name == "FRAME":
            continue
        if operation.name == "MEMOIZE":
            if not isinstance(last, (str, bytes)):
                count += 1
            memo.append(last if isinstance(last, (str, bytes)) else count)
            continue
        last = argument if isinstance(argument, (str, bytes)) else object()
        if operation.name in ("BINGET", "LONG_BINGET"):
            # a text from the memo is told as it would be anew, others by their number among those that are no texts
            last = memo[int(argument or 0)]
            yield repr(last).encode("utf-8", "surrogatepass") if isinstance(last, (str, bytes)) else f"get {last}".encode()
        elif isinstance(argument, (str, bytes)):
            yield repr(argument).encode("utf-8", "surrogatepass")
        else:
            yield f"{operation.name} {argument!r}".encode()


def _check_tags(tree: bytes) -> None:
    """Raise ValueError for more tags than `MAX_TAGS`, before anything is made of them."""
    if next(itertools.islice(_TAG.finditer(tree), MAX_TAGS, None), None) is not None:
        raise ValueError(f"The objects of a job may have {MAX_TAGS:,} tuples, dicts, arrays and instances: send data as arrays")


def _sources(items: Sequence[Any]) -> dict[str, str]:
    """Read the text of the files that define `items`, by module; only for the record, it is not run."""
    texts: dict[str, str] = {}
    room = SOURCE_BYTES
    # in one order: what is left out, where there is too much, is the same each time
    for name in sorted({str(getattr(item, "__module__", "")) for item in items}):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and is_user_module(name):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                text = Path(file).read_text("utf-8")
                room -= len(text.encode())
                if len(text) <= MAX_TEXT and room >= 0:
                    texts[name] = text
    return texts


def _describe(item: Any, pickled: list[Any], depth: int) -> Any:
    if depth > 32:
        raise TypeError("The objects of a job are nested more than 32 levels, or into themselves.")
    kind = type(item)
    # exact types: a subclass has content or code of its own
    if item is None or kind in (bool, int, float, str, bytes) or (hasattr(item, "dtype") and _is_plain_array(item)):
        return item
    if kind in (list, tuple):
        return kind([_describe(v, pickled, depth + 1) for v in item])
    if kind is dict and all(type(k) in (int, str) for k in item):
        return {k: _describe(v, pickled, depth + 1) for k, v in item.items()}
    if isinstance(item, (type, types.FunctionType)):
        return _by_name(item) or _keep(item, pickled)
    # an object of ours with fields alone goes as data, so that a node without shipped code can take the job
    named = _by_name(kind)
    if named is not None and _is_only_fields(item):
        return _Instance(named, {k: _describe(v, pickled, depth + 1) for k, v in vars(item).items()})
    return _keep(item, pickled)


def _is_only_fields(item: Any) -> bool:
    """Tell if the `__dict__` of an object is all there is to it."""
    built_in = (list, tuple, dict, set, frozenset, str, bytes, int, float, enum.Enum, BaseException)
    return (
        hasattr(item, "__dict__")
        and not isinstance(item, built_in)
        and not any(vars(c).get("__slots__") for c in type(item).__mro__)
    )


def _is_plain_array(item: Any) -> bool:
    return type(item).__module__ == "numpy" and item.dtype.str in DTYPES


def _by_name(item: Any) -> _ByName | None:
    """Name `item` for all nodes, if it is a class of this project that may be named."""
    module, name = item.__module__ or "", item.__qualname__
    if not _may_be_named(module) or "<" in name:
        return None
    reference = _ByName(module, name)
    try:
        # found again here as a node would find it: a name that leads elsewhere is no name
        return reference if _find(reference) is item else None
    except (Rejected, ImportError):
        return None


def _keep(item: Any, pickled: list[Any]) -> _Pickled:
    for number, known in enumerate(pickled):
        # by identity: equal objects may be changed apart later
        if known is item:
            return _Pickled(number)
    pickled.append(item)
    return _Pickled(len(pickled) - 1)


def _pickle(items: list[Any], classes: list[type]) -> bytes:
    """Make one pickle for all objects and their class table, so that classes in both are identical; fills `classes`.

    With it go the source lines of the functions, for tracebacks, unless they make it too large.
    """
    reach = CodeClosure(items)
    with _packing, _by_value():
        try:
            classes += [cls for cls in reach.classes if _travels(cls)]
            lines = source_lines.collect(reach.codes)
            # one pickle: a class in two pickles would be two classes on the node
            code = _dump((items, classes, lines), reach.names)
            # lines are for people: they go first where the code is large
            return code if not lines or len(code) <= MAX_CODE_BYTES // 2 else _dump((items, classes, {}), reach.names)
        except Exception as error:
            raise TypeError(f"The code of this job cannot travel: {error}") from error


@contextmanager
def _by_value() -> Iterator[None]:
    """Let the user's modules travel by value in the meantime."""
    # not those that the user has registered: they stay so afterwards
    ours = [module for module in user_modules() if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in ours:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in ours:
            cloudpickle.unregister_pickle_by_value(module)


def _travels(item: Any) -> bool:
    """Tell if `item` can be pickled, apart from modules that it names; a neighbour in a module that cannot is left behind."""
    try:
        _dump(item, ())
    except Exception:  # noqa: BLE001  pickling runs arbitrary reducers, which may raise any error
        return False
    return True


def _dump(item: Any, names: Collection[str]) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, names).dump(item)
    return buffer.getvalue()


class _CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler of code with the name of its file, by which a traceback tells the line."""

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, types.CodeType):
            # cloudpickle puts "<dynamic-code>" there from 3.1.3 on; the file is the eleventh argument of all Pythons from 3.8
            _, given = self.dispatch_table[types.CodeType](item)
            return types.CodeType, (*given[:10], item.co_filename, *given[11:])
        return super().reducer_override(item)


class _Pickler(_CodePickler):
    """Pickler of the user's modules, of which only the contents under `names` travel; the same code always gives the same
    bytes.
    """

    def __init__(self, file: io.BytesIO, names: Collection[str]) -> None:
        super().__init__(file)
        self._names = names

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, types.ModuleType) and item.__name__ != "__main__" and is_user_module(item.__name__):
            # of a module only what the code names: the rest may not pickle, and would change the hash
            wanted = sorted(set(self._names) & vars(item).keys())
            return types.ModuleType, (item.__name__,), {name: vars(item)[name] for name in wanted if _travels(vars(item)[name])}
        if isinstance(item, functools._lru_cache_wrapper) and is_user_module(item.__module__):  # by itself it goes by name
            return _cached, (item.__wrapped__, *item.cache_parameters().values())
        reduced = super().reducer_override(item)
        if isinstance(item, type) and isinstance(reduced, tuple) and len(reduced[1]) > 5:
            # a random number by which cloudpickle would know the class again: it changes the hash of the code, and would
            # bring back the old class of a process that has loaded it before
            return (reduced[0], (*reduced[1][:-2], None, reduced[1][-1]), *reduced[2:])
        return reduced


class _LinelessPickler(_Pickler):
    """Pickler for output that is hashed, never loaded: of code it has all but its place in a file."""

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, types.CodeType):
            parts = (item.co_code, item.co_consts, item.co_names, item.co_varnames, item.co_freevars, item.co_cellvars)
            counts = (item.co_argcount, item.co_posonlyargcount, item.co_kwonlyargcount)
            # where exceptions are caught, which Python 3.10 has in the code itself
            caught = getattr(item, "co_exceptiontable", b"")
            return tuple, ((*parts, item.co_flags, *counts, caught, item.co_name),)
        reduced = super().reducer_override(item)
        if isinstance(item, type) and isinstance(reduced, tuple) and len(reduced) > 2:
            reduced[2][0].pop("__firstlineno__", None)  # which classes have from Python 3.13 on
        return reduced


def _cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Callable[..., Any]:
    return functools.lru_cache(maxsize, typed)(function)


def load(objects: bytes, code: bytes, policy: str = ANY_CODE) -> tuple[dict[str, Any], Sequence[type]]:
    """Load the objects of a bundle and its class table. Call it in a job process only.

    Args:
        objects: its data.
        code: its pickle.
        policy: "any", "none" (bundles without user code only), or the path of a file with allowed SHA-256 sums.

    Raises: Rejected by policy; ImportError naming a module that this node lacks; ProtocolError for a malformed bundle.
    """
    if code:
        # first of all: to load a pickle is to run it
        _check_policy(bundle_hash(objects, code), policy)
    pickled, classes, lines = cloudpickle.loads(code) if code else ((), (), {})
    source_lines.remember(lines)
    size = int.from_bytes(objects[:8], "big")
    try:
        # before anything is made of them, as on the way out
        _check_tags(objects[8 : 8 + size])
        layout, tree = unpack(objects[8 : 8 + size])
        arrays, position = allocate(layout, MAX_CODE_BYTES), 8 + size
        for array in arrays:
            array.reshape(-1).view("u1")[:] = memoryview(objects)[position : position + array.nbytes]
            position += array.nbytes
        restored = _restore(decode(tree, arrays, _PARTS), pickled)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise ProtocolError(f"The objects of a job are malformed: {error}.") from error
    if not isinstance(restored, dict):
        raise ProtocolError("The objects of a job are malformed: no dict.")
    return restored, classes


def pack_trusted(value: Any, classes: Sequence[type]) -> tuple[bytes, list[np.ndarray[Any, Any]]]:
    """Pickle a task's result for a submitter that trusts the nodes; also return the memory of its arrays.

    Classes of `classes`, which came from there, go by their number. Raises: TypeError for a value that cannot be pickled.
    """
    buffers: list[Any] = []
    file = io.BytesIO()
    try:
        _ResultPickler(file, classes, buffers).dump(value)
    except Exception as error:
        raise TypeError(f"{type(error).__name__}: {error}") from error
    # arrays apart: they travel from their own memory, not through the pickle
    return file.getvalue(), [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


class _ResultPickler(_CodePickler):
    def __init__(self, file: io.BytesIO, classes: Sequence[type], buffers: list[Any]) -> None:
        super().__init__(file, buffer_callback=buffers.append)
        # by number: the submitter must get instances of its own classes, not of copies
        self._classes = {cls: number for number, cls in enumerate(classes)}

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, type) and item in self._classes:
            return _class_of_result, (self._classes[item],)
        return super().reducer_override(item)


_result_classes: ContextVar[Sequence[type]] = ContextVar("result_classes")


def _class_of_result(number: int) -> type:
    return _result_classes.get()[number]


def load_trusted(data: bytes, arrays: Sequence[np.ndarray[Any, Any]], classes: Sequence[type]) -> Any:
    """Load the value that `pack_trusted` was given with the same `classes`. **Runs any code of the sender**: only for a
    submitter that has asked for it (`ClusterExecutor(trust_results=True)`). Raises: anything.
    """
    token = _result_classes.set(classes)
    try:
        return cloudpickle.loads(data, buffers=arrays)
    finally:
        _result_classes.reset(token)


def _check_policy(sha256: str, policy: str) -> None:
    if policy == ANY_CODE:
        return
    if policy == NO_CODE:
        raise Rejected("This node takes no shipped code (--no-shipped-code), and the job brings classes of its own.")
    # read at each job: the list may grow while the agent runs
    try:
        allowed = read_regular(Path(policy)).split()
    except ValueError as error:
        raise ValueError(f"The list of allowed code {policy} (--allow-code) cannot be used: {error}.") from error
    if sha256 not in allowed:
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
        return _make_instance(item, pickled)
    if kind is _Pickled:
        if not 0 <= item.number < len(pickled):
            raise IndexError(f"there is no pickled object {item.number}")
        return pickled[item.number]
    return item


def _make_instance(described: _Instance, pickled: Sequence[Any]) -> Any:
    cls = _find(described.cls)
    # no constructor runs and no property is asked: a stranger's data must not choose code
    instance = object.__new__(cls)
    for name, value in described.state.items():
        if not (isinstance(name, str) and name.isidentifier()) or name.startswith("__"):
            raise ValueError(f"{cls.__qualname__} has no field {name!r}")
        instance.__dict__[name] = _restore(value, pickled)
    return instance


def _find(reference: _ByName) -> Any:
    """Find a class that a job may name.

    Raises: Rejected for anything else, ImportError for a module that is not there.
    """
    shown = f"{reference.module}.{reference.name}"
    if not _may_be_named(reference.module):
        raise Rejected(f"A job may name classes of models, training and executors only, got {shown}.")
    # after the check of the name: to import a module is to run it
    found: Any = importlib.import_module(reference.module)
    for part in reference.name.split("."):
        found = None if part.startswith("__") else getattr(found, part, None)
    if not isinstance(found, type) or found.__module__ != reference.module:
        raise Rejected(f"{shown} is no class of this project.")
    return found


def _may_be_named(module: str) -> bool:
    """Tell if a job without code may name the classes of `module`. Not those that reach files, sockets or pickles: a name
    must not open a door that a node closes by refusing shipped code.
    """
    return module.partition(".")[0] in ("nn", "parallel_sgd", "executor") or module == "rpc.executable"
