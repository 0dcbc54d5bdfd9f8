"""Code shipping between two interpreters, as between a submitter and a worker that has no copy of the code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..statements import covers
from .travel import Trip, run

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


@pytest.mark.share(3)
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


@pytest.mark.long
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


CELL = '''
class Deep:
    """Of a cell of a notebook."""

    def fail(self, steps):
        if steps:
            return self.fail(steps - 1)
        return {}["there is none"]  # in the cell
'''
LINES_MAIN = f"""
import linecache
import helper

CELL = {CELL!r}
name = "<ipython-input-3-0123456789ab>"
linecache.cache[name] = (len(CELL), None, CELL.splitlines(True), name)  # as IPython does it
exec(compile(CELL, name, "exec"))

def in_main(x):
    # a comment of the function
    return helper.root(x)  # of the script

ship(deep=Deep(), in_main=in_main, nothing=(lambda: 1 / 0))
"""
LINES_HELPER = """
import numpy as np

UNUSED = 'this line is of no function'

def root(x):
    return np.linalg.inv(
        np.zeros((x, x))  # several lines
    )

def not_reached():
    return 'nor does this one travel'
"""
FAIL = """
import traceback
for call in (lambda: objects["deep"].fail(1), lambda: objects["in_main"](2), objects["nothing"]):
    try:
        call()
    except Exception:
        traceback.print_exc(file=sys.stdout)
import linecache
found = [entry[2] for name, entry in linecache.cache.items() if name.endswith("helper.py")]
print("LINES", [line for lines in found for line in lines if line.strip()])
"""


def test_tracebacks_show_lines_of_files_that_are_not_here(tmp_path: Path) -> None:
    """Of a script, of a module beside it and of a notebook's cell; only what is in the functions that travel."""
    trip = Trip(tmp_path, LINES_MAIN, {"helper.py": LINES_HELPER})
    shutil.rmtree(tmp_path / "trip" / "home")
    told, _, lines = trip.arrive(FAIL).partition("LINES")
    for line in (
        'return {}["there is none"]  # in the cell',
        "return self.fail(steps - 1)",
        "return helper.root(x)  # of the script",
    ):
        assert line in told
    assert "ship(deep=Deep(), in_main=in_main, nothing=(lambda: 1 / 0))" in told and "return np.linalg.inv(" in told
    assert "several lines" in lines and "this line is of no function" not in lines and "nor does this one" not in lines


CALL_ALL = """
import traceback
for f in objects.values():
    try:
        f()
    except ZeroDivisionError:
        print(traceback.format_exc())
"""


def test_lines_are_left_out_where_they_would_not_travel(tmp_path: Path) -> None:
    """256 KiB of them are the most, and a file that cannot be found has none."""
    long = "\n".join(f"    x = {number}  # {'a' * 100}" for number in range(4000))
    main = "import long\nexec('def typed(): return 1 / 0')\nship(long=long.f, typed=typed)"
    trip = Trip(tmp_path, main, {"long.py": f"def f():\n{long}\n    return 1 / 0\n"})
    shutil.rmtree(tmp_path / "trip" / "home")
    told = trip.arrive(CALL_ALL)
    assert "in f" in told and "in typed" in told and "return 1 / 0" not in told
