"""Code that is shipped: what needs none, what a node may refuse, what no bundle can reach, and trips between interpreters."""

from __future__ import annotations

import enum
import functools
import random
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from network.errors import NetworkError, ProtocolError, Rejected
from network.values import encode
from rpc import AbsSimpleExecutor, shipping
from rpc.code_closure import CodeClosure, is_user_module, user_modules
from rpc.executable import ReplyPackage
from rpc.messages import ANY_CODE, NO_CODE, parse
from rpc.shipping import Bundle, load, pack

from ..statements import covers
from .travel import Trip, run


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


def test_instances_run_no_code() -> None:
    """Security 5: no `__init__`, no property setter, no `__setstate__`. A project module that is not there is named."""
    state = {"content": b"no text", "other": 3}
    restored = load(forged({"x": shipping._Instance(PACKAGE, state)}), b"")[0]["x"]
    assert type(restored) is ReplyPackage and vars(restored) == state
    with pytest.raises(ImportError, match=r"nn\.nothing"):
        load(forged({"x": shipping._ByName("nn.nothing", "f")}), b"")


@covers("SUB-36")
def test_mutants() -> None:
    """5,000 mutated bundles without code are refused with an error of the network, or are data."""
    draw = random.Random(5)
    good = pack({"cls": ReplyPackage, "instance": ReplyPackage([1, 2]), "array": np.arange(4.0), "t": (1, "two")}).objects
    refused = 0
    for _ in range(5_000):
        data = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            position = draw.randrange(len(data))
            data[position : position + draw.randint(0, 2)] = draw.randbytes(draw.randint(0, 2))
        try:
            assert type(load(bytes(data), b"", NO_CODE)[0]) is dict
        except (NetworkError, ImportError):
            refused += 1
    assert refused > 3_000


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
    names = [module.__name__ for module in user_modules()]
    assert __name__ in names and not [name for name in names if not name.startswith(("tests", "conftest"))]


# Between two interpreters, as between a submitter and a worker that has no copy of the code.

HELPER = """
import threading
from dataclasses import dataclass
import base

UNTRAVELLED = threading.Lock()

@dataclass
class Packet:
    number: int
    parts: list

class Scaled(base.Common):
    factor = 3
    def make(self, number):
        return Packet(scale(number), [self.factor])

def scale(number):
    return number * Scaled.factor

def locked():
    with UNTRAVELLED:
        return 1
"""
BASE = "class Common:\n    def hello(self):\n        return 'from base'\n"
MAIN = """
import functools
import threading
import numpy as np
import helper
from helper import Scaled
from rpc import AbsSimpleExecutor

lock = threading.Lock()          # neighbours that cannot travel
class Holder:
    lock = lock

def closure(step):
    def add(x):
        return x + step
    return add

class Sum(AbsSimpleExecutor):
    def run(self, com):
        return helper.scale(7), np.float32(2), Scaled().make(2)

class Answer:                     # named by nothing but an annotation
    value = 42

def spare(n: "Answer"):
    return n

made = Answer()
made.x = [1, {"y": (2, 3)}]
bundle = ship(
    executable=Sum, function=lambda x: closure(10)(x) + 1, closure=closure(5), partial=functools.partial(closure(1), 4),
    module_function=helper.scale, instance=Scaled(), held=made, array=np.arange(6.0).reshape(2, 3), nested={"a": [(1, Sum)]},
    cached=functools.lru_cache(closure(2)),
)
print(bundle.sha256, sorted(c.__qualname__ for c in bundle.classes))
"""


@covers("SUB-33")
def test_scripts_and_their_files_travel(tmp_path: Path) -> None:
    """Classes of `__main__` and of files beside it, lambdas, closures and instances work without a copy there. A list of
    allowed hashes is of use only if submitting again gives the same hash (Security 5); changed code has another."""
    trip = Trip(tmp_path, MAIN, {"helper.py": HELPER, "base.py": BASE})
    out = trip.arrive(
        """
import sys
o = objects
assert o["executable"](0, [0], -1).run(None)[:2] == (21, 2)
assert o["function"](1) == 12 and o["closure"](1) == 6 and o["partial"]() == 5 and o["cached"](1) == 3
assert o["module_function"](2) == 6 and o["instance"].hello() == "from base"
assert o["held"].x == [1, {"y": (2, 3)}] and o["array"].shape == (2, 3) and o["array"].sum() == 15
assert o["nested"]["a"][0][1] is o["executable"], "one object, however often it is named"
table = {c.__qualname__: c for c in classes}
packet = o["instance"].make(2)
assert type(packet) is table["Packet"] and packet == table["Packet"](6, [3]), "table and methods share their classes"
assert type(o["instance"]) is table["Scaled"] and type(o["held"]) is table["Answer"]
assert "helper" not in sys.modules and "base" not in sys.modules
print(" ".join(c.__qualname__ for c in classes))
"""
    )
    assert trip.packed.stdout.split()[1:] == str(sorted(out.split())).split()  # both sides have the same table
    assert set(out.split()) == {"Answer", "Sum", "Scaled", "Common", "Packet"}  # and Holder stayed behind
    home = trip.away.parent / "home"
    # the first run has compiled helper.py; from then on nothing differs
    hashes = {run(home, "main.py", str(trip.bundle), seed=seed).stdout for seed in range(4)}
    assert len(hashes) == 1
    # of another length: Python takes what it compiled within the same second for the same as long as the size is
    (home / "helper.py").write_text(HELPER.replace("factor = 3", "factor = 33"))
    assert run(home, "main.py", str(trip.bundle)).stdout.split()[0] not in hashes.pop()


@covers("SUB-33")
def test_a_changed_class_of_the_same_name_is_the_new_one(tmp_path: Path) -> None:
    """Also in one process that has loaded the old one."""
    main = "class Codec:\n    def speak(self):\n        return {}\nship(codec=Codec, one=Codec())\n"
    old, new = Trip(tmp_path, main.format("'old'"), name="1"), Trip(tmp_path, main.format("'new'"), name="2")
    assert new.packed.returncode == 0
    out = old.arrive(
        f"""
folder = {str(new.bundle)!r}
later, _ = load(open(folder + "/objects", "rb").read(), open(folder + "/code", "rb").read())
print(objects["one"].speak(), later["one"].speak(), objects["codec"]().speak(), later["codec"]().speak())
"""
    )
    assert out.split() == ["old", "new", "old", "new"]


NAMES = "[c.__name__ for c in classes]"
TOOLS = "import threading\nLOCK = threading.Lock()\nclass Tool:\n    size = 4\ndef use():\n    return Tool().size\n"
USER = "import mine\nclass User:\n    def work(self):\n        return mine.tools.use(), mine.tools.Tool()\nship(user=User)\n"
NOTEBOOK = """
import sys, types
notebook = types.ModuleType("__main__")
sys.modules["__main__"] = notebook
cell = "class Point:\\n    kind = {}\\n    def twin(self):\\n        return Point()\\nclass Other:\\n    pass"
exec(cell.format(1), vars(notebook))
exec(cell.format(2), vars(notebook))
ship(point=notebook.Point())
"""
LAB = """
import sys, types
lab = types.ModuleType("lab")
sys.modules["lab"] = lab
exec("class Probe:\\n    def read(self):\\n        return unit()\\ndef unit():\\n    return 'mV'", vars(lab))
ship(probe=lab.Probe)
"""


@covers("SUB-33")
@pytest.mark.parametrize(
    ("files", "main", "code", "shown"),
    [
        # a package beside the script, with relative imports, used through its module object
        (
            {"mine/__init__.py": "from . import tools\n", "mine/tools.py": TOOLS},
            USER,
            f"size, tool = objects['user']().work(); assert type(tool) in classes; print(size, {NAMES})",
            "4 ['User', 'Tool']",
        ),
        # a `__main__` that is a module object without a file, as in IPython, where a cell defines a class anew
        (
            {},
            NOTEBOOK,
            f"p = objects['point']; assert type(p.twin()) is type(p) is classes[0]; print(p.kind, {NAMES})",
            "2 ['Point', 'Other']",
        ),
        # a module that is made at run time
        ({}, LAB, "print(objects['probe']().read(), classes[0].__module__)", "mV lab"),
    ],
    ids=["package", "notebook", "made at run time"],
)
def test_modules_of_ones_own_travel(tmp_path: Path, files: dict[str, str], main: str, code: str, shown: str) -> None:
    assert Trip(tmp_path, main, files).arrive(code).strip() == shown


def test_import_inside_a_function_is_refused_with_its_name(tmp_path: Path) -> None:
    """Security 5: it cannot be followed to the nodes; imports of installed modules are fine, and so is a neighbour's."""
    tools = "def use():\n    from . import other\n    return other\n"
    files = {"helper.py": BASE, "mine/__init__.py": "", "mine/tools.py": tools}
    body = "class A:\n    def run(self):\n        def inner():\n            {}\n        return inner\nship(a=A)\n"
    for number, line in enumerate(("import helper", "from helper import Common", "import helper.part as part")):
        message = Trip(tmp_path, body.format(line), files, f"local{number}").refused()
        assert "A.run imports helper inside its body" in message
        assert "import it at the top of __main__" in message
    relative = Trip(tmp_path, "import mine.tools\nship(use=mine.tools.use)\n", {**files, "mine/other.py": ""}, "relative")
    assert "use imports . inside its body" in relative.refused()
    for number, line in enumerate(("import json, numpy.linalg", "from rpc import Coordinator", "import not_here_at_all")):
        assert Trip(tmp_path, body.format(line), files, f"fine{number}").packed.returncode == 0
    long = "def f(x):\n" + "".join(f"    x += {n}.5\n" for n in range(600)) + "    import json\n    import {0}\nship(f=f)\n"
    assert Trip(tmp_path, long.format("numpy"), files, "long").packed.returncode == 0
    assert "f imports helper inside its body" in Trip(tmp_path, long.format("helper"), files, "longer").refused()
    neighbour = "class B:\n    def run(self):\n        import helper\n" + body.format("return 1")
    assert Trip(tmp_path, neighbour, files, "neighbour").arrive(f"print({NAMES})").strip() == "['A']"


def test_missing_modules_are_named_on_the_loading_side(tmp_path: Path) -> None:
    """Security 5: an import that the node lacks shows at loading; what only a neighbour needs is not missed."""
    lab = {"site-packages/lab.py": "class Gauge:\n    pass\ndef read():\n    return 1\n"}
    head = "import sys\nsys.path.insert(0, 'site-packages')\nimport lab\n"
    needed = Trip(tmp_path, head + "class A:\n    def run(self):\n        return lab.read()\nship(a=A)\n", lab, "needed")
    assert "No module named 'lab'" in needed.fail()
    idle = (
        "class Plot:\n    def draw(self):\n        lab.read()\nclass Sub(lab.Gauge):\n    pass\nclass A:\n    pass\nship(a=A)\n"
    )
    assert Trip(tmp_path, head + idle, lab, "idle").arrive(f"print({NAMES})").strip() == "['A']"


def test_what_cannot_travel_is_refused(tmp_path: Path) -> None:
    needed = "import threading\nlock = threading.Lock()\nclass A:\n    def run(self):\n        return lock\nship(a=A)\n"
    assert "The code of this job cannot travel: " in Trip(tmp_path, needed, name="lock").refused()
    assert "lock" in Trip(tmp_path, needed, name="named").refused()
    big = "class A:\n    blob = bytes(9 << 20)\nship(a=A)\n"
    message = Trip(tmp_path, big, name="big").refused()
    assert "The code of a job may have 8388608 bytes, got 94" in message
    assert message.startswith("ValueError")
