"""What library code may not contain: anything that turns received bytes into running code, prints, and asserts."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator

import pytest

from .sources import ROOT, findings, library_files, parse, script_files
from .statements import covers

LOADER = ROOT / "rpc" / "shipping.py"  # the one module that loads shipped code, inside job processes
LOADERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle", "yaml"}
# what may be taken from a module that has a loader, too
HARMLESS = {
    "joblib": {"Parallel", "delayed", "parallel", "parallel_config"},
}
RUNNERS = {"eval", "exec", "compile", "execfile"}
STATE_HOOKS = {"__reduce__", "__reduce_ex__", "__setstate__"}
SHELLS = {("os", "system"), ("os", "popen"), ("subprocess", "getoutput"), ("subprocess", "getstatusoutput")}


def unsafe(tree: ast.Module) -> list[str]:
    """Ways to run what came from outside. Defining a state hook (to refuse it, say) is none, calling one is."""
    return [f"line {getattr(node, 'lineno', 0)}: {text}" for node in ast.walk(tree) for text in _unsafe(node)]


def _unsafe(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"import {a.name}" for a in node.names if a.name.partition(".")[0] in LOADERS)
    elif isinstance(node, ast.ImportFrom):
        taken = {alias.name for alias in node.names}
        if not taken <= HARMLESS.get(node.module or "", set()):
            names = {(node.module or "").partition(".")[0], *taken}
            yield from (f"import {name}" for name in sorted(names & LOADERS))
    elif isinstance(node, ast.Name) and node.id in RUNNERS:
        yield node.id
    elif isinstance(node, ast.Attribute):
        if node.attr in STATE_HOOKS:
            yield node.attr
        if isinstance(node.value, ast.Name) and (node.value.id, node.attr) in {*SHELLS, *(("builtins", r) for r in RUNNERS)}:
            yield f"{node.value.id}.{node.attr}"
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("import_module", "__import__", "getattr") and any(
            isinstance(a, ast.Constant) and a.value in LOADERS | STATE_HOOKS for a in node.args
        ):
            yield f"{called} of a loader"
    elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell") and not _is_false(node.value):
        yield f"{node.arg}="


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def loud(tree: ast.Module) -> list[str]:
    """Prints and asserts: library code logs, and raises errors that say what came."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            found.append(f"line {node.lineno}: assert")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            found.append(f"line {node.lineno}: print")
    return found


@covers("SEC-18", "SUB-36")
def test_nothing_that_is_received_can_run() -> None:
    """No pickle, marshal, eval, exec or allow_pickle outside the one loader."""
    paths = [path for path in (*library_files(), *script_files()) if path != LOADER]
    assert findings(paths, lambda tree, _: unsafe(tree)) == []


@covers("SEC-18")
def test_the_loader_is_the_only_exception_and_used() -> None:
    """The exception has to be one, and it takes nothing but cloudpickle."""
    assert {line.partition(": ")[2] for line in unsafe(parse(LOADER))} == {"import cloudpickle"}


def test_library_code_neither_prints_nor_asserts() -> None:
    assert findings(library_files(), lambda tree, _: loud(tree)) == []


def raw_loggers(tree: ast.Module) -> list[str]:
    """Loggers by a name that are not from `rpc.support.logs`; that without a name is the root, which has handlers only."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    cleaned = {id(arg) for call in calls if getattr(call.func, "id", "") == "cleaned" for arg in ast.walk(call)}
    return [
        f"line {call.lineno}: getLogger"
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "getLogger" and call.args and id(call) not in cleaned
    ]


@covers("SEC-17")
def test_what_hears_peers_logs_clean_records() -> None:
    """Whatever they say, and whatever handlers the application has; network logs what it has made itself."""
    packages = [path for path in library_files() if path.relative_to(ROOT).parts[0] in ("rpc", "parallel_sgd", "executor")]
    assert findings(packages, lambda tree, _: raw_loggers(tree)) == []
    assert raw_loggers(ast.parse("logging.getLogger(__name__)")) != []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "from multiprocessing import pickle",
        "import cloudpickle",
        "def f():\n    import marshal",
        "import shelve",
        "import joblib.parallel",
        "from joblib import Parallel, load",
        "from joblib.memory import Memory",
        "eval('1')",
        "run = exec",
        "import builtins\nbuiltins.eval('1')",
        "compile(text, 'f', 'exec')",
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=flag)",
        "value.__reduce__()",
        "value.__setstate__(state)",
        "getattr(value, '__setstate__')(state)",
        "importlib.import_module('pickle')",
        "__import__('marshal')",
        "os.system('ls')",
        "subprocess.run('ls', shell=True)",
    ],
)
def test_the_gate_sees_what_could_run(code: str) -> None:
    assert len(unsafe(ast.parse(code))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "np.load(file, allow_pickle=False)",
        "class Key:\n    def __reduce__(self):\n        raise TypeError",
        "model.compile(rule)",
        "re.compile('x')",
        "text = 'import pickle'",
        "evaluate(1)",
        "from joblib import Parallel, delayed",
    ],
)
def test_the_gate_lets_the_rest_pass(code: str) -> None:
    assert unsafe(ast.parse(code)) == []


@pytest.mark.parametrize("code", ["print(1)", "def f():\n    assert x, 'why'"])
def test_the_gate_sees_prints_and_asserts(code: str) -> None:
    assert len(loud(ast.parse(code))) == 1


@pytest.mark.parametrize("code", ["pprint(1)", "log.info('print(1)')", "self.print(1)"])
def test_the_gate_lets_logging_pass(code: str) -> None:
    assert loud(ast.parse(code)) == []


def test_no_leavings_are_tracked() -> None:
    """What merges and editors leave behind is not part of the repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    assert [
        name for name in listed if name.endswith((".orig", ".rej", ".bak", ".swp", "~")) or "/.ipynb_checkpoints/" in name
    ] == []
