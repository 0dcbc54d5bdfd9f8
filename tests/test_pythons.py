"""The slice of the gate under other Pythons: which are found, and what they get."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import pythons
from .sources import ROOT


def test_each_python_that_the_package_names_is_looked_for() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert pythons.supported(text) == [(3, 10), (3, 11), (3, 12), (3, 13)]
    assert f'requires-python = ">={"{}.{}".format(*pythons.supported(text)[0])}"' in text


def test_only_one_that_runs_counts(tmp_path: Path) -> None:
    """A file of the name that does not run, or is of another version, is passed over."""
    own = sys.version_info[:2]
    name = "python{}.{}".format(*own)
    broken, other, real = (tmp_path / each for each in ("broken", "other", "real"))
    for folder in (broken, other, real):
        folder.mkdir()
    (broken / name).write_text("#!/bin/sh\nexit 127\n")
    (other / "python3.77").symlink_to(sys.executable)
    (real / name).symlink_to(os.path.realpath(sys.executable))
    os.chmod(broken / name, 0o700)
    path = os.pathsep.join(map(str, (broken, other, real)))
    environ = {"PATH": path, "PYENV_ROOT": str(tmp_path / "none")}
    assert pythons.find([own, (3, 77)], environ) == {own: real / name}


def test_the_lowest_gets_the_oldest_dependencies() -> None:
    oldest, newest = pythons.requirements((3, 10), True), pythons.requirements((3, 13), False)
    assert "numpy==1.26" in oldest and "tomli==2.0" in oldest and any(each.startswith("pytest==") for each in oldest)
    assert "numpy>=1.26" in newest and not any(each.startswith("tomli") for each in newest)
    assert not any("mypy" in each or "matplotlib" in each for each in (*oldest, *newest))


def test_the_slice_is_there() -> None:
    assert all((ROOT / path).exists() for path in pythons.WIDE)
