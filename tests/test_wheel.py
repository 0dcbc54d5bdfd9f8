"""The wheel, installed in a fresh environment outside the repository, trains two local workers and brings all it needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[1]
PACKAGES = ("nn", "network", "rpc", "parallel_sgd", "executor", "psgd")

IMPORT_ALL = """
import importlib, pathlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    assert pathlib.Path(package.__file__).is_relative_to(sys.prefix), package.__file__
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if module.name not in ("nn.sklearn", "parallel_sgd.record.openssf"):  # they need an extra, and that is said
            importlib.import_module(module.name)
import nn
model = nn.model.SequentialModel(input_shape=[-1, 64])
model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
model.save("digits.model")
"""


def call(*command: str | Path, cwd: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PSGD_", "PYTHON"))}
    finished = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, timeout=250
    )
    assert finished.returncode == 0, f"{command}:\n{finished.stdout[-2000:]}\n{finished.stderr[-3000:]}"
    return finished.stdout


def test_the_wheel_works_outside_the_repository(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    # a copy, so that nothing is written into the repository; the build needs what pyproject.toml names and the packages
    source.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "_psgd_packages.py"):
        shutil.copy(ROOT / name, source / name)
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("parallel_sgd-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.suffix in (".py", ".md", ".npz") or path.name == "py.typed":
                assert path.relative_to(ROOT).as_posix() in names
    assert not [name for name in names if name.partition("/")[0] in ("tests", "benchmarks", "examples")]

    venv.create(site, symlinks=True)  # with a pip of its own it takes seconds more
    python = site / "bin" / "python"
    quiet = ("--quiet", "--no-compile", "--disable-pip-version-check")
    call(sys.executable, "-m", "pip", "--python", python, "install", *quiet, wheel, cwd=tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    homes = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
    call(python, "-W", "error", "-c", IMPORT_ALL, *PACKAGES, cwd=work, **homes)
    options = ["-m", "digits.model", "--local", "2", "--dataset", "digits", "--epochs", "40", "--batch-size", "16", "--json"]
    result = json.loads(call(site / "bin" / "psgd-submit", *options, cwd=work, **homes))["result"]
    assert result["accuracy"] > 0.8
    assert (work / "Node-1-Retrieve" / "MODEL-P-SGD-N(1).model").is_file()
    assert "--listen" in call(site / "bin" / "psgd-worker", "--help", cwd=work, **homes)
