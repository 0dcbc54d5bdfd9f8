"""CONTRIBUTING.md names files, targets, modules and names that exist, and each extension point of docs/README.md."""

from __future__ import annotations

import importlib.util
import re

import pytest

from parallel_sgd.batch_sync import ISyncType, RescuingSync, SyncSetting
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import Composed, ExchangePattern, LocalRule, MergeRule, Neighbours, Trigger
from parallel_sgd.codec.pipeline import Chain, Memory, Quantizer, Sparsifier, Stage
from parallel_sgd.profiles import AbsBlockAssignment

from .sources import ROOT, library_files

GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FENCED = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
SETTINGS = (ROOT / "pyproject.toml").read_text("utf-8")
MADE = {".venv/bin/python", ".venv/bin/pip", ".venv/bin/ruff", ".venv/bin/mypy"}
ELSEWHERE = {
    "__init__.py",
    "logging",
    "mypy --strict",
    "print",
    "LOCKED=no",
    ".venv",
    ".venv/release",
    "v",
}  # of Python, of tools, and what is made
SECTIONS = {"Args:", "Returns:", "Raises:"}
KINDS = (
    "layer activation operation loss metric rule callback codec stage sync type assignment option subcommand launcher writer "
    "transport"
)


def words() -> set[str]:
    """Return the texts in backquotes outside of the console blocks."""
    return set(re.findall(r"`([^`\n]+)`", FENCED.sub("", GUIDE)))


def names() -> set[str]:
    """Return every identifier of the packages, of the tests' helpers and the marks of pytest."""
    helpers = [ROOT / "tests" / name for name in ("statements.py", "parallel_sgd/test_options.py", "network/wires.py")]
    return set(re.findall(r"\w+", "\n".join(path.read_text("utf-8") for path in [*library_files(), *helpers])))


def lacking(text: str) -> str:
    """Return what there is not of a command, a path or a name, "" if all is there."""
    if text in ELSEWHERE | SECTIONS:
        return ""
    if found := re.match(r"make (?:-k )?([\w-]+)", text):
        return "" if found[1] in TARGETS else text
    if found := re.match(r"(?:\.venv/bin/)?python -m ([\w.]+)", text):
        return "" if importlib.util.find_spec(found[1]) else text
    if "/" in text or re.search(r"\.(?:py|md|toml|txt)$", text):
        return "" if (ROOT / text).exists() else text
    if re.fullmatch(r"\w+(?:\(\))?", text):
        return "" if text.removesuffix("()") in KNOWN or f'"{text}: ' in SETTINGS else text
    return ""  # a sentence


KNOWN = names() | {path.name for path in ROOT.iterdir()}


def test_what_is_named_is_there() -> None:
    found = words()
    assert {"nn/layer", "IGradientDescent", "make soak", "processes"} <= found
    assert [text for text in sorted(found) if lacking(text)] == []


@pytest.mark.parametrize("text", ["nn/lair", "make haste", "python -m tests.nowhere", "IGradientAscent", "tests/x.py"])
def test_what_is_not_there_is_found(text: str) -> None:
    assert lacking(text) == text


def test_commands_call_what_is_there() -> None:
    lines = [line.partition("#")[0] for block in FENCED.findall(GUIDE) for line in block.splitlines()]
    assert len(lines) > 5
    assert all(lacking(found) == "" for line in lines for found in re.findall(r"make [\w-]+", line))
    paths = {word for line in lines for word in line.split() if "/" in word}
    assert [path for path in sorted(paths - MADE) if not (ROOT / path).exists()] == []


def test_every_target_is_told() -> None:
    """Those that are steps of another one need no line."""
    steps = {"test-computing", "test-processes", "test-alone", "clean"}
    told = {found for page in ("CONTRIBUTING.md", "README.md", "docs/gallery.md")
            for found in re.findall(r"\bmake ([\w-]+)", (ROOT / page).read_text("utf-8"))}  # fmt: skip
    assert TARGETS - steps - told == set()


PAGES = {
    "parallel_sgd.codec": "parallel_sgd/codec/README.md",
    "parallel_sgd.codec.pipeline": "parallel_sgd/codec/README.md",
    "parallel_sgd.codec.compose": "parallel_sgd/codec/README.md",
    "parallel_sgd.batch_sync": "parallel_sgd/codec/README.md",
    "parallel_sgd.profiles": "parallel_sgd/profiles/blockassignment/README.md",
}
"""Of each package whose parts users choose, the page that tells of all of them."""
PARTS = (Codec, Stage, ExchangePattern, MergeRule, LocalRule, Trigger, ISyncType, SyncSetting, AbsBlockAssignment)
BASES = (*PARTS, Composed, Chain, Memory, Quantizer, Sparsifier, Neighbours, RescuingSync)


@pytest.mark.parametrize("package", PAGES)
def test_every_part_is_told(package: str) -> None:
    """A base class is no part that users choose."""
    page, module = (ROOT / PAGES[package]).read_text("utf-8"), importlib.import_module(package)
    kinds = {name: getattr(module, name) for name in module.__all__}
    parts = [name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, PARTS) and kind not in BASES]
    lacking = [name for name in parts if not re.search(rf"\b{name}\b", page)]
    assert parts and not lacking, f"tell of {', '.join(lacking)} in {PAGES[package]}"


def test_every_part_has_a_row() -> None:
    rows = " ".join(re.findall(r"^\| ([a-z` ()]+) \|", GUIDE.partition("## Add a part")[2], re.MULTILINE))
    assert [kind for kind in KINDS.split() if kind not in rows] == []
