"""Signature of `parallel()` as editors and type checkers read it: from the source, without running it."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from nn.model import Model
from parallel_sgd import ParallelSGD
from parallel_sgd.batch_sync.sync.interface import ISyncType
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose.merge import MergeRule
from parallel_sgd.codec.compose.parts import ExchangePattern, LocalRule
from parallel_sgd.codec.pipeline import Stage
from parallel_sgd.options import fields as metadata
from parallel_sgd.options import job_options
from parallel_sgd.options.job_options import JobOptions
from tests.sources import ROOT, library_files, parse, script_files
from tests.test_docs import GUIDES, program

MOST = 3000  # characters of a hover

RIGHT = """
import nn
from executor.parallel import Collection, Context
from rpc import Communication
import parallel_sgd
from nn import Input
from nn.layer import Dense
from nn.model import Functional, Model, SequentialModel
from nn.value import Value
from nn.dataset import Digits
from parallel_sgd import JobResult, ParallelSGD
from parallel_sgd.batch_sync import StaleSynchronous
from parallel_sgd.codec import FirstCopy, SizeAdaptive, TopK
from network import NodeAssignment

class Slow(FirstCopy):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)

class Own(Model):
    def __init__(self, units: int) -> None:
        super().__init__([-1, 8])
        self.units = units

    def call(self, x: Value) -> Value:
        return Dense(self.units)(x)

class Plain(Model):
    def call(self, x: Value) -> Value:
        return x * 2

def build() -> list[Model]:
    x = Input([-1, 8])
    single: Functional = Model(x, Dense(3)(x))
    several: Functional = Model({"x": x}, {"y": Dense(3)(x)}, name="several", seed=3, dtype="float64")
    single.add_loss(single.output.mean())
    own: Own = Own(3)
    plain: Plain = Plain([-1, 8], seed=1)
    return [single, several, own, plain, SequentialModel([-1, 8], [Dense(3)])]

def right(job: ParallelSGD, model: SequentialModel, nodes: NodeAssignment) -> None:
    job.parallel(nodes, codec="topk", ps_codec="syncps", sync_type="asgd", gd_type="adam", op_type="psgd")
    job.parallel(nodes, codec={"dense_1": TopK}, sync_type=StaleSynchronous(20), sign="key.pem", discovery="hosts.sh")
    job.parallel(nodes, codec=SizeAdaptive(big=TopK), sync_type="stale:20", assignment_type="iid", epochs=3)
    job.parallel(nodes, codec={"dense_1": Slow})
    Dense(3, activation="relu")
    model.setup("mse", "accuracy")
    model.compile("adam")
    model.rule.learn_rate = 0.1
    single = Model(x := Input([-1, 8]), Dense(2)(x))
    twice: Functional = Model(x, single(x))
    SequentialModel.load("sequential.model").layers.pop()
    ParallelSGD(model, Digits()).parallel(nodes).models[0].layers.pop()
    after(job.parallel(nodes))

def after(result: JobResult) -> None:
    print(result.models[0].evaluate, result.simulated.seconds)

def talk(com: Communication) -> object:
    sender, value = com.get_one()
    return value

def count(context: Context) -> Collection[tuple[str, int]]:
    return context.text_file("book.txt").map(lambda word: (word, 1)).reduce_by_key(lambda a, b: a + b)

def wrong(job: ParallelSGD, model: SequentialModel, nodes: NodeAssignment) -> None:
"""
WRONG = {
    "codec": 'job.parallel(nodes, codec="plian")',
    "ps_codec": 'job.parallel(nodes, ps_codec="syncsp")',
    "sync_type": 'job.parallel(nodes, sync_type="ssdg")',
    "gd_type": 'job.parallel(nodes, gd_type="adm")',
    "sync_type ": 'job.parallel(nodes, sync_type="stale:two")',
    "op_type": 'job.parallel(nodes, op_type="psdg")',
    "assignment_type": 'job.parallel(nodes, assignment_type="idd")',
    "epoch": 'job.parallel(nodes, epoch="ten")',
    "sign": "job.parallel(nodes, sign=3)",
    "discovery": "job.parallel(nodes, discovery=3)",
    "activation": 'Dense(3, activation="rleu")',
    "loss": 'model.setup("mse2", "accuracy")',
    '"setup"': 'model.setup("mse", "acuracy")',
    "List item": 'model.compile("adam", "mse", ["acuracy"])',
    'to "compile"': 'model.compile("adm")',
    "on_failure": 'job.parallel(nodes, on_failure="restrat")',
    "kernel_initializer": 'Dense(3, kernel_initializer="glorut_uniform")',
    "Own": 'Own("three")',
    # names that a package lacks, although it imports those that it has at their first use
    "Dens": "nn.layer.Dens(3)",
    "StaleSynchronous": "parallel_sgd.StaleSynchronous(3)",
}


def checked(tmp_path: Path, text: str) -> str:
    """Return what mypy says about a program of a user."""
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_wrong_words_fail_the_type_checker_and_right_ones_do_not(tmp_path: Path) -> None:
    """One run of mypy reads both: each wrong line has an error of its own, no right line has one."""
    text = RIGHT + "".join(f"    {line}\n" for line in WRONG.values())
    said, first = checked(tmp_path, text), RIGHT.count("\n") + 1
    found = {int(line): message for line, message in re.findall(r"program\.py:(\d+): error: (.*)", said)}
    assert sorted(found) == list(range(first, first + len(WRONG))), said
    for number, name in enumerate(WRONG, first):
        assert name.strip() in found[number] or name == "loss", found[number]
        assert "incompatible type" in found[number] or "Module has no attribute" in found[number]


def bound(body: list[ast.stmt]) -> set[str]:
    """Return the names that a file binds by its statements, also in `if TYPE_CHECKING`, without running it."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            found |= bound([*node.body, *getattr(node, "orelse", [])])
    return found


def test_editors_find_each_public_name_in_the_file_that_its_package_imports_it_from() -> None:
    """Pyright takes a name that only `__getattr__` of a module has for none: it shows neither type nor text."""
    lost = []
    for package in (path for path in library_files() if path.name == "__init__.py"):
        for node in ast.walk(parse(package)):
            if not isinstance(node, ast.ImportFrom) or not node.level or not node.module:
                continue
            home = package.parents[node.level - 1] / node.module.replace(".", "/")
            source = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
            names = bound(parse(source).body) | {"*", *(path.stem for path in source.parent.glob("*"))}
            lost += [f"{source.relative_to(ROOT)}: {alias.name}" for alias in node.names if alias.name not in names]
    assert not lost


@pytest.mark.parametrize(
    "kind", [Codec, Stage, ExchangePattern, MergeRule, LocalRule, ISyncType], ids=lambda kind: kind.__name__
)
def test_editors_show_what_each_attribute_of_a_base_means(kind: type) -> None:
    """From the text behind an attribute; comments before it are for readers of the source alone."""
    tree = parse(Path(str(inspect.getsourcefile(kind))))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    bare = [
        ast.unparse(node.target)
        for node, after in pairwise([*body, ast.Pass()])
        if isinstance(node, ast.AnnAssign) and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]
    assert not [name for name in bare if not name.startswith("_")]


@pytest.mark.long
def test_programs_of_users_pass_the_type_checker(tmp_path: Path) -> None:
    """The programs of the guides and the examples; what the test of wrong words asserts in the gate is of the same types."""
    pytest.importorskip("mypy")
    guides = {page: program((ROOT / page).read_text("utf-8"))[0] for page in GUIDES}
    for page, text in guides.items():
        (tmp_path / f"guide_{re.sub(r'[^a-z]', '_', page.lower())}.py").write_text(text)
    files = [*tmp_path.glob("*.py"), *(path for path in script_files() if path.parts[-2] != "notebooks")]
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", "--ignore-missing-imports"]
    command += ["--allow-redefinition-new", "--local-partial-types", "--explicit-package-bases", *map(str, files)]
    environment = os.environ | {"MYPYPATH": os.pathsep.join(map(str, (ROOT, ROOT / "examples" / "codecs")))}
    checked = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    said = [line for line in checked.stdout.splitlines() if ": error: " in line]
    # a guide shows the error of a name that is none
    assert len(said) == 1 and '"SequentialModel" has no attribute "metrics_names"' in said[0], checked.stdout


def stated() -> list[ast.AnnAssign]:
    """Return the fields of `JobOptions` as its file states them."""
    body = next(node.body for node in parse(Path(job_options.__file__)).body if getattr(node, "name", "") == "JobOptions")
    return [node for node in body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) != "_"]


def brief() -> dict[str, str]:
    """Return the begin of what is said of each option, up to the first comma or stop."""
    told = {field.name: field.metadata["option"].text.replace("`", "") for field in fields(JobOptions)}
    return {name: re.split(r"[.,:;(]", text)[0].strip() for name, text in told.items()}


def at_the_cursor(docstring: str, name: str) -> str | None:
    """Return what pyright shows of the argument that is typed: of the first line with `name: `, all from there."""
    line = next((line for line in docstring.splitlines() if f"{name}: " in line), None)
    return None if line is None else line[line.index(f"{name}: ") :]


def test_signature_help_shows_the_meaning_of_the_argument_at_the_cursor() -> None:
    """Editors take it from the static docstring; consoles and notebooks have the whole text of each option at run time."""
    told, whole = inspect.getdoc(JobOptions) or "", inspect.getdoc(ParallelSGD.parallel) or ""
    for name, text in brief().items():
        assert at_the_cursor(told, name) == f"{name}: {text}", "its line in the docstring of JobOptions, as its text begins"
        assert (at_the_cursor(whole, name) or "").startswith(f"{name}: ")
    assert len(brief()["redundancy"]) > 10


def test_the_hover_is_short_and_names_every_option_with_its_meaning() -> None:
    told = inspect.getdoc(JobOptions) or ""
    signature = "(\n" + ",\n".join(f"    {ast.unparse(node)}" for node in stated()) + "\n) -> JobResult"
    # pyright sends Markdown: a fence, escaped underscores, two spaces at the end of a line
    lines = [line.replace("_", r"\_") + "  " * bool(line) for line in told.splitlines()]
    signature = signature.replace("Callable[[], Iterable[str]]", "(() -> Iterable[str])")
    shown = len("```python\n(method) def parallel" + signature + "\n```\n---\n" + "\n".join(lines).rstrip())
    assert shown <= MOST, f"the hover has {shown} characters: give a long type of JobOptions a short name, as CodecChoice"
    wanted = [f"{name}: {text}" for name, text in brief().items()]
    lacking = [line for line in wanted if line not in told.splitlines()]
    assert not lacking, f"the docstring of JobOptions must have the lines {lacking}, as the texts of `about` begin"
    assert told.partition("\n\n")[2].splitlines() == wanted


def test_defaults_are_literals_or_classes() -> None:
    defaults = {ast.unparse(node.target): node.value for node in stated()}
    assert defaults.pop("nodes") is None
    assert {"block_size", "codec"} <= defaults.keys()
    for name, default in defaults.items():
        is_literal = isinstance(default, ast.Constant) or (isinstance(default, ast.Tuple) and not default.elts)
        is_class = isinstance(default, ast.Name) and isinstance(getattr(job_options, default.id), type)
        assert is_literal or is_class, name


def test_an_object_of_a_model_has_its_class() -> None:
    """Pyright goes by what `__new__` returns, mypy by the class: of Any an editor completes nothing and checks nothing."""
    assert inspect.signature(Model.__new__).return_annotation == "_Kind" == Model.__new__.__annotations__["cls"][5:-1]


def test_no_option_takes_anything() -> None:
    assert len(stated()) == len(fields(JobOptions))
    assert not [ast.unparse(node) for node in stated() if "Any" in re.split(r" \| ", ast.unparse(node.annotation))]


def test_a_field_without_a_meaning_is_refused() -> None:
    class Half(metadata.Options):
        told: int = 1
        untold: int = 2

    with pytest.raises(TypeError, match=r"must have a field and an 'about', got one of \['untold'\]"):
        metadata.described(told=metadata.about("it is told."))(Half)
