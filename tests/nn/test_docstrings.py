"""The examples in docstrings run as they stand, and every public class of `nn` has one."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nn

MODULES = sorted(module.name for module in pkgutil.walk_packages(nn.__path__, "nn."))
ROOT = Path(nn.__file__).parents[1]
OTHERS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("network", "rpc", "executor", "parallel_sgd", "psgd")
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)

PACKAGES = [
    "nn.activation", "nn.callback", "nn.dataset", "nn.dataset.transforms", "nn.gradient_descent",
    "nn.gradient_descent.schedule", "nn.initializer", "nn.layer", "nn.loss", "nn.metric", "nn.model", "nn.optimizer",
]  # fmt: skip


def public_names(module: ModuleType) -> dict[str, Any]:
    """What a module offers: what its `__all__` names or, without one, what is defined there."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return {name: getattr(module, name) for name in names if not name.startswith("_")}


def namespace(module: str) -> dict[str, Any]:
    """What an example may use: `nn`, `np`, and the public names of its module and of the packages around it.

    Its classes belong to a module of their own, so that nobody takes them for a part of the package.
    """
    importlib.import_module("nn.testing")
    names: dict[str, Any] = {}
    parts = module.split(".")
    for count in range(2, len(parts) + 1):
        names.update(public_names(importlib.import_module(".".join(parts[:count]))))
    return {**vars(importlib.import_module(module)), **names, "nn": nn, "np": np, "__name__": "example"}


def examples(found: Any) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(found.__doc__ or "")


@pytest.mark.parametrize("name", MODULES + OTHERS)
def test_examples_run(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, globs=namespace(name), verbose=False, raise_on_error=False)
    assert not failed


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_has_an_example_that_is_not_skipped(package: str) -> None:
    classes = [found for found in public_names(importlib.import_module(package)).values() if inspect.isclass(found)]
    assert classes
    without = [
        found.__name__
        for found in classes
        if not issubclass(found, Exception) and not any(doctest.SKIP not in example.options for example in examples(found))
    ]
    assert not without, f"write an example into the docstring of {', '.join(without)}"


def test_a_wrong_example_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """The tests above can fail."""
    wrong = ModuleType("wrong", ">>> np.zeros(2).tolist()\n[0.0, 1.0]\n")
    assert doctest.testmod(wrong, globs={"np": np}).failed == 1
    assert "[0.0, 0.0]" in capsys.readouterr().out
