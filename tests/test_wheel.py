"""The wheel, installed in a fresh environment outside the repository, trains two local workers and brings all it needs; the
archive of the sources builds it, and tests itself.

With PSGD_DIST, a folder, these are the files there, as `make dist` has built them of a commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from network import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[1]
PACKAGES = ("nn", "network", "rpc", "parallel_sgd", "executor", "psgd")
BUILT = os.environ.get("PSGD_DIST", "")

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
        [str(part) for part in command], cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, f"{command}:\n{finished.stdout[-2000:]}\n{finished.stderr[-3000:]}"
    return finished.stdout


def built(kind: str, source: Path, folder: Path) -> Path:
    """Build the wheel or the archive of a folder with sources, or return the one that is built; there is no other file of its
    kind."""
    if not BUILT:
        call(sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder, source, cwd=folder)
    (file,) = Path(BUILT or folder).glob("*.whl" if kind == "wheel" else "*.tar.gz")
    assert file.name.startswith(f"parallel_sgd-{VERSION}")
    return file


def check_page(wheel: Path) -> None:
    """Assert what an index shows: links that work there, licences with their texts, the Pythons, and extras of users alone."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        about = message_from_bytes(archive.read(name))
        folder = name.rpartition("/")[0]
        for file in about.get_all("License-File") or []:
            assert archive.read(f"{folder}/licenses/{file}") == (ROOT / file).read_bytes()
    vendored = {path.relative_to(ROOT).as_posix() for path in (ROOT / "parallel_sgd/run_page/vendor").glob("[LN]*")}
    assert {"LICENSE", "nn/dataset/DIGITS-LICENCE.md", *vendored} == set(about.get_all("License-File") or [])
    assert about["License-Expression"] == "MIT AND Apache-2.0 AND CC-BY-4.0"
    urls = dict(url.split(", ", 1) for url in about.get_all("Project-URL") or [])
    assert set(urls) == {"Repository", "Documentation", "Changelog", "Issues"}
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)}
    assert versions < {*(about.get_all("Classifier") or [])} and about["Requires-Python"] == ">=3.10"
    assert set(about.get_all("Provides-Extra") or []) == {
        "plot", "page", "sign", "dask", "joblib", "sklearn", "tensorboard", "mlflow", "images", "keras", "onnx",
    }  # fmt: skip
    pinned = [each for each in about.get_all("Requires-Dist") or [] if "==" in each.partition(";")[0]]
    assert pinned == []  # exact versions are for development
    assert about["Description-Content-Type"] == "text/markdown"
    text = str(about.get_payload())
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 20 and all(target.startswith("https://") for target in targets)
    tag = f"{urls['Repository']}/blob/v{about['Version']}/"
    files = [target.removeprefix(tag).partition("#")[0] for target in targets if target.startswith(tag)]
    assert len(files) > 20 and all((ROOT / file).exists() for file in files)
    assert f"{tag.replace('github.com', 'raw.githubusercontent.com').replace('/blob', '')}docs/gallery/report.png" in targets


@pytest.mark.long
def test_the_archive_of_the_sources_builds_and_tests_itself(tmp_path: Path) -> None:
    source = tmp_path / "source"
    left = shutil.ignore_patterns(".[!d]*", "runs", "site", "build", "dist", "*.egg-info", "__pycache__", "Node-*-Retrieve")
    shutil.copytree(ROOT, source, ignore=left)
    archive = built("sdist", source, tmp_path)
    with tarfile.open(archive) as content:
        content.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    kept = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    if BUILT:  # of the commit alone, and the folder may have more
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        kept &= {*listed}
    assert kept - {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")} <= {"MANIFEST", "PKG-INFO"}
    slice_of_tests = ["tests/test_lock.py", "tests/test_layering.py", "tests/nn/loss/test_losses.py", "tests/test_citations.py"]
    done = call(sys.executable, "-m", "pytest", "-q", *slice_of_tests, cwd=unpacked)
    assert " passed" in done and " failed" not in done
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, unpacked, cwd=tmp_path)
    (wheel,) = tmp_path.glob("parallel_sgd-*.whl")
    check_page(wheel)


@pytest.mark.long
def test_the_wheel_works_outside_the_repository(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    # a copy, so that nothing is written into the repository; the build needs what pyproject.toml names and the packages
    source.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "setup.py", "_psgd_packages.py"):
        shutil.copy(ROOT / name, source / name)
    wheel = built("wheel", source, tmp_path)
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.suffix in (".py", ".md", ".npz") or path.name == "py.typed":
                assert path.relative_to(ROOT).as_posix() in names
    assert not [name for name in names if name.partition("/")[0] in ("tests", "benchmarks", "examples")]
    check_page(wheel)

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
