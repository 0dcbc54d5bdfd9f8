"""Whatever guides tell to import or to derive from is in the `__all__` of the package that it is imported from."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.sources import PACKAGES, ROOT, library_files
from tests.test_docs import BLOCK, GUIDES

BASES = {
    "parallel_sgd.batch_sync": "AsynchronizedSGD ISyncType RescuingSync SyncSetting SynchronizedSGD",
    "parallel_sgd.codec": "Answering CheckingPackets Codec Partial Remembering TakingLate Tracking",
    "parallel_sgd.codec.compose": "ExchangePattern LocalRule MergeRule Neighbours Trigger",
    "parallel_sgd.codec.pipeline": "GradientStage LinearCode Memory Quantizer Sparsifier Stage",
}
FORMER = "docs/deviations.md"  # tells names of version 0.9
OF_PROCESSES = {"operations", "protocol", "architecture", "results", "contract", "errors", "reliability", "deviations"}
"""Pages that name classes of the inside: messages, what dumps of memory and stacks show."""
DOTTED = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)*\.[A-Z]\w*[a-z]\w*)\b")


@pytest.mark.parametrize(("package", "name"), [(package, name) for package, names in BASES.items() for name in names.split()])
def test_a_base_is_exported(package: str, name: str) -> None:
    module = importlib.import_module(package)
    assert name in module.__all__ and isinstance(getattr(module, name), type)


def imported(code: str) -> Iterator[str]:
    """Yield the dotted names of the packages that a program imports or reads."""
    bound = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PACKAGES:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            bound.update(each.asname or each.name.partition(".")[0] for each in node.names)
    for node in ast.walk(ast.parse(code)):
        text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if re.fullmatch(r"\w+(\.\w+)+", text) and text.partition(".")[0] in bound & set(PACKAGES):
            yield text


def hidden(dotted: str) -> str:
    """Return the package and the name that it does not export, "" where each step is exported or a module."""
    first, *names = dotted.split(".")
    found: object = importlib.import_module(first)
    for name in names:
        if not isinstance(found, ModuleType):
            return ""
        if name in getattr(found, "__all__", ()):
            found = getattr(found, name)
            continue
        try:
            found = importlib.import_module(f"{found.__name__}.{name}")
        except ModuleNotFoundError:
            return f"{found.__name__} does not export {name}"
    return ""


@pytest.mark.parametrize("guide", GUIDES)
def test_what_a_guide_imports_is_exported(guide: str) -> None:
    text = (ROOT / guide).read_text("utf-8")
    found = {name for block in BLOCK.finditer(text) for name in imported(block["code"])}
    found |= set(DOTTED.findall(text)) if guide != FORMER else set()
    assert sorted(filter(None, map(hidden, found))) == []


def test_what_is_not_exported_is_found() -> None:
    code = (
        "import nn\nfrom nn.loss.loss import check_length\nfrom parallel_sgd.codec import Codec, SHIPPED\nnn.layer.Dense.call"
    )
    assert sorted(filter(None, map(hidden, imported(code)))) == [
        "nn.loss.loss does not export check_length",
        "parallel_sgd.codec does not export SHIPPED",
    ]


def test_a_class_that_a_guide_for_authors_names_is_exported() -> None:
    classes, exported = set(), set()
    for path in library_files():
        tree = ast.parse(path.read_text("utf-8"))
        classes.update(node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_")
        lists = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
        exported.update(
            each.value for found in lists for each in ast.walk(found)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )  # fmt: skip
    guides = [guide for guide in GUIDES if guide.removeprefix("docs/").removesuffix(".md") not in OF_PROCESSES]
    named = {
        (guide, name)
        for guide in guides
        for name in re.findall(r"`(?:[\w.]+\.)?([A-Z]\w+)\b", (ROOT / guide).read_text("utf-8"))
        if name in classes - exported
    }
    # a transport is a part of this repository alone, and one of Keras's names is that of a base of metrics here
    assert sorted(named - {("docs/README.md", "Link"), ("docs/from-keras.md", "Accuracy")}) == []
