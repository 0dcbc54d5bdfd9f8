"""The slice of the gate under other Pythons: which are found, and what they get."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

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
    assert "numpy>=2.1" in newest and not any(each.startswith("tomli") for each in newest)
    assert not any("mypy" in each or "matplotlib" in each for each in (*oldest, *newest))


def test_the_slice_is_there() -> None:
    assert all((ROOT / path).exists() for path in pythons.WIDE)


NO_WHEEL = """\
WARNING: Location '/somewhere' is ignored.
ERROR: Could not find a version that satisfies the requirement msgpack==1.0.5 (from versions: 1.0.6rc1, 1.0.6, 1.0.7, 1.1.0)
ERROR: No matching distribution found for msgpack==1.0.5
"""
NO_INDEX = """\
ERROR: Could not find a version that satisfies the requirement msgpack==1.0.5 (from versions: none)
ERROR: No matching distribution found for msgpack==1.0.5
"""


def test_a_bound_that_nobody_can_have_is_told_by_its_cause() -> None:
    """It is a failure of pyproject.toml; that there is no index is none."""
    error = pythons.NotInstalled(NO_WHEEL, (3, 12))
    told = (
        "pyproject.toml allows msgpack==1.0.5 under Python 3.12, for which it has no wheel; "
        "the oldest of those that have one is 1.0.6."
    )
    assert error.is_bound and str(error).startswith(told)
    error = pythons.NotInstalled(NO_INDEX, (3, 12))
    assert not error.is_bound and str(error).endswith("msgpack==1.0.5 (from versions: none)")


def test_each_python_has_one_bound_of_each_dependency() -> None:
    """By markers that leave none out, and name none twice."""
    names = {version: [each.partition("=")[0] for each in pythons.bounds(version)] for version in ((3, 10), (3, 12), (3, 13))}
    assert all(len(found) == len(set(found)) for found in names.values())
    assert names[3, 12] == names[3, 13] == [name for name in names[3, 10] if name != "tomli"]
    assert {"numpy", "pandas", "msgpack", "matplotlib", "h5py", "pillow"} <= set(names[3, 13])


@pytest.mark.parametrize(("told", "untried", "code"), [(NO_WHEEL, 0, 1), (NO_INDEX, 0, 0), (NO_INDEX, 1, 1)])
def test_what_cannot_be_installed_is_told(
    told: str, untried: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(version: pythons.Version, interpreter: Path, oldest: bool) -> Path:
        raise pythons.NotInstalled(told, version)

    monkeypatch.setattr(pythons, "environment", fails)
    assert pythons.run((3, 12), Path("python3.12"), True, untried=untried) == code
    assert "Not tried: " in (said := capsys.readouterr().out) and "msgpack==1.0.5" in said
