"""Who may import whom: every import in the packages, also inside functions, is one of the allowed edges."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Set
from typing import NamedTuple

import pytest

from .sources import PACKAGES, ROOT, findings, library_files, parse

# package: the packages of ours that it may import
ALLOWED = {
    "nn": set[str](),
    "network": set[str](),
    "rpc": {"network"},
    "executor": {"rpc", "network"},
    "parallel_sgd": {"nn", "rpc", "network"},
    "psgd": {"nn", "rpc", "network", "parallel_sgd"},  # the commands, and what programs share
}
# what a package needs wherever it runs, and what a function may ask for when it is called
NEWER = {"annotationlib"}  # of Python's library from 3.14 on
TYPED = {"typing_extensions"}  # each type checker brings it along: under `if TYPE_CHECKING` it need not be installed
REQUIRED = {
    "nn": {"_psgd_packages", "numpy", "tqdm"},
    "network": {"_psgd_packages", "numpy", "msgpack", "cryptography"},
    "rpc": {"_psgd_packages", "numpy", "msgpack", "cloudpickle", "tqdm", "tomllib", "tomli"},  # Python 3.10 has no tomllib
    "executor": {"_psgd_packages", "numpy", "msgpack", "tqdm"},
    "parallel_sgd": {"_psgd_packages", "numpy", "tqdm"},
    "psgd": {"_psgd_packages"},
}
OPTIONAL = {
    "nn": {"h5py", "pandas", "matplotlib", "safetensors", "IPython", "tensorboardX", "PIL"},
    "network": set[str](),
    "rpc": {"distributed", "IPython"},
    "executor": {"dask", "joblib", "pandas", "scipy"},
    "parallel_sgd": {"matplotlib", "mlflow", "pandas", "starlette", "tensorboardX", "uvicorn"},
    "psgd": set[str](),
}
# a module that puts another package behind an interface, and is itself imported when that is asked for, needs that one
ADAPTERS = {
    "nn/sklearn.py": {"sklearn"},
    "parallel_sgd/record/keys.py": {"cryptography"},
    "parallel_sgd/record/openssf.py": {"cryptography", "model_signing"},
}


class Import(NamedTuple):
    """One imported top-level module, where, whether only when a function runs, and whether for type checkers alone."""

    name: str
    line: int
    inside: bool
    typed: bool


def imports(tree: ast.Module) -> Iterator[Import]:
    """All imports of a module, those by `importlib.import_module("...")` and `__import__("...")` included.

    What stands under `if TYPE_CHECKING` counts like any other: knowing a name is knowing the package.
    """
    yield from _imports(tree, False, False)


def _imports(node: ast.AST, inside: bool, typed: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(alias.name.partition(".")[0], node.lineno, inside, typed) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield Import((node.module or "").partition(".")[0], node.lineno, inside, typed)
    elif isinstance(node, ast.Call) and node.args:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        name = node.args[0]
        if called in ("import_module", "__import__") and isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield Import(name.value.partition(".")[0], node.lineno, inside, typed)
    deeper = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    known = node.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING" else []
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, deeper, typed or child in known)


def objections(package: str, tree: ast.Module, adapted: Set[str] = frozenset()) -> list[str]:
    """Imports that `package` may not make."""
    found = []
    for name, line, inside, typed in imports(tree):
        if name in PACKAGES:
            if name != package and name not in ALLOWED[package]:
                found.append(f"line {line}: {package} may not import {name}")
        elif name not in sys.stdlib_module_names | NEWER | REQUIRED[package] | adapted and not (
            (inside and name in OPTIONAL[package]) or (typed and name in TYPED)
        ):
            found.append(f"line {line}: {package} may not need {name}")
    return found


def test_only_allowed_packages_are_imported() -> None:
    assert (
        findings(library_files(), lambda tree, name: objections(name.partition("/")[0], tree, ADAPTERS.get(name, set()))) == []
    )


def test_relative_imports_stay_inside_their_package() -> None:
    for path in library_files():
        depth = len(path.relative_to(ROOT).parts) - 1
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= depth, f"{path}:{node.lineno} leaves its package"


def test_no_package_can_escape() -> None:
    for path in ROOT.glob("*/__init__.py"):
        assert path.parent.name in {*PACKAGES, "tests", "benchmarks", "examples"}, f"{path.parent.name} has no row here"


@pytest.mark.parametrize(
    ("package", "code", "objection"),
    [
        ("nn", "import network", "line 1: nn may not import network"),
        ("nn", "from network.wire import pack", "line 1: nn may not import network"),
        ("nn", "def f():\n    import rpc.agent", "line 2: nn may not import rpc"),
        ("nn", "class A:\n    def f(self):\n        from parallel_sgd import job", "line 3: nn may not import parallel_sgd"),
        ("network", "import rpc", "line 1: network may not import rpc"),
        ("rpc", "import nn", "line 1: rpc may not import nn"),
        ("rpc", "x = lambda: __import__('parallel_sgd.job')", "line 1: rpc may not import parallel_sgd"),
        ("rpc", "import importlib\nimportlib.import_module('nn.model')", "line 2: rpc may not import nn"),
        ("rpc", "if TYPE_CHECKING:\n    import nn", "line 2: rpc may not import nn"),
        ("executor", "import nn", "line 1: executor may not import nn"),
        ("parallel_sgd", "import executor", "line 1: parallel_sgd may not import executor"),
        ("parallel_sgd", "import psgd", "line 1: parallel_sgd may not import psgd"),
        ("network", "import pandas", "line 1: network may not need pandas"),
        ("nn", "import pandas", "line 1: nn may not need pandas"),
        ("nn", "try:\n    import torch\nexcept ImportError: pass", "line 2: nn may not need torch"),
        (
            "nn",
            "if TYPE_CHECKING:\n    x = 1\nelse:\n    import typing_extensions",
            "line 4: nn may not need typing_extensions",
        ),
    ],
)
def test_the_gate_sees_a_forbidden_import(package: str, code: str, objection: str) -> None:
    assert objections(package, ast.parse(code)) == [objection]


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("nn", "import numpy, os.path\nfrom nn.value import store\nfrom . import plan"),
        ("nn", "def f():\n    import pandas"),
        ("nn", "if TYPE_CHECKING:\n    from typing_extensions import TypeVar"),
        ("rpc", "from network.wire import pack\nimport cloudpickle"),
        ("parallel_sgd", "import nn, rpc, network"),
    ],
)
def test_the_gate_lets_allowed_imports_pass(package: str, code: str) -> None:
    assert objections(package, ast.parse(code)) == []
