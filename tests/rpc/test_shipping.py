"""Bundles within one process: what needs no code, what a node may refuse, and what no bundle can reach."""

from __future__ import annotations

import enum
import functools
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from network.errors import ProtocolError, Rejected
from network.values import encode
from rpc import AbsSimpleExecutor, shipping
from rpc.code_closure import CodeClosure, is_user_module, user_modules
from rpc.executable import ReplyPackage
from rpc.messages import ANY_CODE, NO_CODE, parse
from rpc.shipping import Bundle, load, load_trusted, pack, pack_trusted

from ..statements import covers


class Mine:
    """A user's class, as far as this project is concerned."""

    def __init__(self, number: int = 0) -> None:
        self.number = number


def reload(bundle: Bundle, policy: str = ANY_CODE) -> dict[str, Any]:
    return load(bundle.objects, bundle.code, policy)[0]


def forged(described: Any) -> bytes:
    """The objects of a bundle that nobody packed."""
    tree, arrays = encode(described, shipping._PARTS)
    head = msgpack.packb([[[a.dtype.str, *a.shape] for a in arrays], tree])
    return len(head).to_bytes(8, "big") + head + b"".join(a.tobytes() for a in arrays)


PACKAGE = shipping._ByName("rpc.executable", "ReplyPackage")


def test_code_keeps_the_name_of_its_file() -> None:
    """A traceback names the file that the user knows, whichever version of cloudpickle packs."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def outer():\n    return [lambda: 1]\n", "<cell 3>", "exec"), space)
    sent = pack({"function": space["outer"]})
    data, arrays = pack_trusted(space["outer"], ())
    for function in (reload(sent)["function"], load_trusted(data, arrays, ())):
        inner = function()[0]
        assert (inner(), inner.__code__.co_filename, function.__code__.co_filename) == (1, "<cell 3>", "<cell 3>")


@covers("SUB-33")
def test_what_every_node_has_needs_no_pickle() -> None:
    """Classes of this project go by name, their instances by fields, arrays and data as they are."""
    objects = {
        "cls": AbsSimpleExecutor,
        "instance": ReplyPackage({"a": [1, (2.5, None)], 3: b"x"}),
        "nested": [{"deep": (ReplyPackage(AbsSimpleExecutor), True)}],
        "scalar": np.float32(1.5),
        "text": "ä" * 5000,
        "large": 1 << 80,
    }
    arrays = {"array": np.arange(12, dtype="<u2").reshape(3, 4), "empty": np.empty((0, 3)), "point": np.array(7)}
    bundle = pack({**objects, **arrays})
    assert bundle.code == b"" and bundle.classes == ()
    back = reload(bundle, NO_CODE)
    assert list(back) == [*objects, *arrays]
    for name, sent in objects.items():
        assert back[name] == sent and type(back[name]) is type(sent)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)


def test_objects_that_are_more_than_their_fields_travel_as_code() -> None:
    """An instance whose `__dict__` is not all of it would arrive mutilated by name and fields."""

    class Colour(enum.Enum):
        RED = 1

    class Named(ReplyPackage):
        __slots__ = ("extra",)

    named = Named(1)
    object.__setattr__(named, "extra", 2)
    partial = functools.partial(parse, 1)
    back = reload(pack({"colour": Colour.RED, "named": named, "set": {1, 2}, "keys": {None: 1}, "partial": partial}))
    assert (back["colour"].name, back["named"].content(), back["named"].extra) == ("RED", 1, 2)
    assert back["set"] == {1, 2} and back["keys"] == {None: 1} and back["partial"].func is parse


def test_whose_class_or_function_arrives() -> None:
    """One object named twice arrives once. A project function that was replaced does not go by name: another one than the
    submitter's would arrive."""
    mine = Mine(3)
    back = reload(pack({"one": mine, "two": [mine], "cls": Mine}))
    assert back["one"] is back["two"][0] and type(back["one"]) is back["cls"] and back["one"].number == 3
    imposter = types.FunctionType(parse.__code__, {"imposter": True}, "parse")
    imposter.__module__, imposter.__qualname__ = "rpc.messages", "parse"
    bundle = pack({"function": imposter})
    assert bundle.code and reload(bundle)["function"] is not parse


def test_policies(tmp_path: Path) -> None:
    """Security 5: --no-shipped-code takes built-in classes only, --allow-code what is listed."""
    bundle, allowed = pack({"mine": Mine}), tmp_path / "hashes.txt"
    with pytest.raises(Rejected, match="--no-shipped-code"):
        reload(bundle, NO_CODE)
    allowed.write_text("0" * 64 + "\n")
    with pytest.raises(Rejected, match=rf"its hash {bundle.sha256} is not in .*hashes.txt \(--allow-code\)"):
        reload(bundle, str(allowed))
    allowed.write_text(f"{'0' * 64}\n{bundle.sha256}  the codec of Monday\n")
    assert reload(bundle, str(allowed))["mine"].__name__ == "Mine"
    changed = bundle.objects.replace(b"mine", b"nine")
    with pytest.raises(Rejected, match="--allow-code"):
        load(changed, bundle.code, str(allowed))
    assert reload(pack({"cls": ReplyPackage}), str(allowed)) == {"cls": ReplyPackage}  # no code, nothing to allow
    with pytest.raises(FileNotFoundError):
        reload(bundle, str(tmp_path / "removed"))


def test_too_much() -> None:
    """Security 5: at most 8 MiB, counted before anything is sent."""
    assert pack({"data": np.zeros((8 << 20) - 1000, np.uint8)}).code == b""
    with pytest.raises(ValueError, match="may have 8388608 bytes, got 8388"):
        pack({"data": np.zeros(8 << 20, np.uint8)})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="nested more than 32 levels"):
        pack({"loop": loop})
    with pytest.raises(TypeError, match=r"cannot travel: .*generator"):
        pack({"generator": (x for x in "ab")})


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("os", "system"), ("builtins", "eval"), ("posix", "system"), ("subprocess", "Popen"), ("", "eval"), ("nnx", "Model")),
        *(("rpc.shipping", f"cloudpickle.{name}") for name in ("loads", "cloudpickle.subimport")),
        *(("rpc.shipping", f"Bundle.{name}") for name in ("__class__", "__init__", "__reduce_ex__")),
        *(("rpc.shipping", name) for name in ("Path", "importlib.import_module", "pack.__globals__", "types.FunctionType")),
        *(("rpc.shipping", name) for name in ("MAX_CODE_BYTES", "no_such", "", "load")),
        *(("rpc.agent.supervisor", name) for name in ("subprocess.Popen", "Supervisor")),
        *(("rpc.messages", "dataclass"), ("network.request", "Request"), ("parallel_sgd.nodes", "parse_worker")),
        ("rpc.executable", "dataclass"),
    ],
)
def test_names_reach_nothing_but_what_jobs_are_made_of(module: str, name: str) -> None:
    """Security 5: a bundle without code, as nodes take that refuse code, cannot name anything else, no function, no loader."""
    for part in (shipping._ByName(module, name), shipping._Instance(shipping._ByName(module, name), {})):
        with pytest.raises(Rejected, match=r"of this project|executors only"):
            load(forged({"x": [part]}), b"", NO_CODE)


@pytest.mark.parametrize(
    "described",
    [
        [1],
        None,
        shipping._Pickled(0),
        {"x": shipping._Pickled(-1)},
        {"x": shipping._Pickled("0")},  # type: ignore[arg-type]
        {"x": shipping._ByName(5, "x")},  # type: ignore[arg-type]
        {"x": shipping._ByName("rpc.executable", None)},  # type: ignore[arg-type]
        {"x": shipping._Instance("rpc.executable", {})},  # type: ignore[arg-type]
        {"x": shipping._Instance(shipping._ByName("nn.tensor_files", "ModelFileError"), {"a": 1})},
        {"x": shipping._Instance(shipping._ByName("rpc.executable", "AbsExecutable"), {})},
        *({"x": shipping._Instance(PACKAGE, state)} for state in ([1], {"__class__": 1}, {"a b": 1}, {1: 1})),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_malformed_objects(described: Any) -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        load(forged(described), b"")


@pytest.mark.long
def test_more_tuples_than_may_travel_are_refused_before_they_are_made() -> None:
    """By the sender and by the node, which would take a second for 350,000 of them; a bound that many arguments keep."""
    many = [(0.5,)] * shipping.MAX_TAGS
    with pytest.raises(ValueError, match=r"may have 100,000 tuples, dicts, arrays and instances: send data as arrays"):
        pack({"x": many})
    with pytest.raises(ProtocolError, match=r"malformed: The objects of a job may have 100,000 tuples"):
        load(forged({"x": many}), b"")
    assert reload(pack({"x": many[1:]}))["x"] == many[1:]


def test_instances_run_no_code() -> None:
    """Security 5: no `__init__`, no property setter, no `__setstate__`. A project module that is not there is named."""
    state = {"content": b"no text", "other": 3}
    restored = load(forged({"x": shipping._Instance(PACKAGE, state)}), b"")[0]["x"]
    assert type(restored) is ReplyPackage and vars(restored) == state
    with pytest.raises(ImportError, match=r"nn\.nothing"):
        load(forged({"x": shipping._ByName("nn.nothing", "f")}), b"")


@dataclass
class Part:
    whole: Mine


def test_reach() -> None:
    """What the roots name comes first, then the neighbours; data and this project's own code reach nothing."""

    def uses() -> tuple[Any, ...]:
        return Part(Mine()), parse

    classes = CodeClosure([uses]).classes
    assert set(classes[:2]) == {Part, Mine}
    assert set(classes) >= {Part, Mine}
    assert all(cls.__module__ == __name__ for cls in classes)
    assert CodeClosure([parse, 5, None, np.zeros(2)]).classes == []


def test_which_modules_are_the_users() -> None:
    theirs = ["rpc.shipping", "network", "nn", "os", "sys", "numpy", "numpy.linalg", "msgpack", "pytest", "_socket", "no.such"]
    assert is_user_module("__main__") and is_user_module(__name__) and not any(map(is_user_module, theirs))
    found = {module.__name__: module.__file__ or "" for module in user_modules()}
    ours = {"nn", "network", "rpc", "executor", "parallel_sgd", "psgd"}
    assert __name__ in found and ours.isdisjoint(name.partition(".")[0] for name in found)
    assert not [name for name, file in found.items() if "site-packages" in file]
