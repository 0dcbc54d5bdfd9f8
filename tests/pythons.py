"""A slice of the suite under the lowest and the newest other Python of this machine: `python -m tests.pythons`.

The lowest has the oldest versions of dependencies that pyproject.toml allows, the newest the newest ones. Each has a virtual
environment in `.venv/pythons`, made anew when pyproject.toml has changed. Which Pythons are not here is told.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from .sources import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Version = tuple[int, int]
# files that depend most on the interpreter: messages about wrong calls, the command line, signatures, code that travels
SLICE = (
    "tests/nn/model/test_building.py",
    "tests/processes/test_seed_programs.py",
    "tests/rpc/test_option_parser.py",
    "tests/rpc/test_shipping.py",
    "tests/test_near_misses.py",
)
WIDE = (
    *SLICE,
    "tests/contract/test_names_of_parts.py",
    "tests/contract/test_names_that_struck.py",
    "tests/nn/layer",
    "tests/nn/test_settable.py",
    "tests/rpc/job/test_report.py",
    "tests/rpc/test_processors.py",
    "tests/test_hidden_packages.py",
    "tests/test_readme_programs.py",
)
# looks at the files alone, so every interpreter says the same
_ALIKE = "tests/test_near_misses.py::test_there_are_no_more_of_them"
_TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "setuptools")
_NEWER = (3, 14)  # not stated to work, and tried where it is here


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def supported(text: str) -> list[Version]:
    """Return the versions of Python that classifiers in a text name, the lowest first."""
    return sorted((3, int(minor)) for minor in re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text))


def candidates(version: Version, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that may be the interpreter of this version: on the path, and those of pyenv."""
    name = "python{}.{}".format(*version)
    for folder in environ.get("PATH", "").split(os.pathsep):
        if (path := Path(folder, name)).is_file() and path.parent.name != "shims":  # which fail where none is chosen
            yield path
    root = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/"), ".pyenv"))
    yield from sorted(root.glob(f"versions/{version[0]}.{version[1]}.*/bin/{name}"), reverse=True)


def find(versions: Sequence[Version], environ: Mapping[str, str]) -> dict[Version, Path]:
    """Return an interpreter that runs and can make virtual environments for each version that is on this machine."""
    asks = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    found = dict[Version, Path]()
    for version in versions:
        for path in candidates(version, environ):
            told = subprocess.run([str(path), "-c", asks], capture_output=True, text=True, check=False, timeout=60)
            if told.returncode == 0 and told.stdout.split() == [str(part) for part in version]:
                found[version] = path
                break
    return found


def requirements(version: Version, oldest: bool) -> list[str]:
    """Return what the slice needs: dependencies of the package, the oldest versions if so, and the tools of the tests."""
    content = project()
    needed = [Requirement(text) for text in content["project"]["dependencies"]]  # type: ignore[index]
    tools = [Requirement(text) for text in content["dependency-groups"]["dev"]]  # type: ignore[index]
    here = {"python_version": "{}.{}".format(*version)}
    for each in needed:
        if oldest:
            each.specifier = SpecifierSet(str(each.specifier).replace(">=", "=="))
    return [
        f"{each.name}{each.specifier}"
        for each in (*needed, *(tool for tool in tools if tool.name in _TOOLS))
        if each.marker is None or each.marker.evaluate(here)
    ]


def environment(version: Version, interpreter: Path, oldest: bool) -> Path:
    """Make the virtual environment of a version unless it is there; return its interpreter."""
    place = ROOT / ".venv" / "pythons" / "{}.{}".format(*version)
    wanted = requirements(version, oldest)
    stamp = hashlib.sha256(repr([str(interpreter), *wanted]).encode()).hexdigest()
    made = place / ".made"
    if not made.exists() or made.read_text("utf-8") != stamp:
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([str(interpreter), "-m", "venv", str(place)], check=True)
        install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install.append("--no-compile")  # most of it is never imported
        subprocess.run([*install, *wanted], check=True)
        made.write_text(stamp, "utf-8")
    return place / "bin" / "python"


def run(version: Version, interpreter: Path, oldest: bool, files: Sequence[str] = SLICE, untried: int = 0) -> int:
    """Run a slice under an interpreter; return the exit code of pytest, or `untried` where its packages cannot be had."""
    title = "the oldest dependencies" if oldest else "the newest dependencies"
    sys.stdout.write(f"Python {version[0]}.{version[1]} ({interpreter}) with {title}:\n")
    sys.stdout.flush()
    try:
        python = environment(version, interpreter, oldest)
    except subprocess.CalledProcessError as error:  # such as without a network
        sys.stdout.write(f"Not tried: {' '.join(error.cmd[:4])} ... ended with {error.returncode}.\n")
        return untried
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "worksteal",
        "-m",
        "not long and not alone",
        f"--deselect={_ALIKE}",
        *files,
    ]
    return subprocess.run(command, cwd=ROOT, env={**kept, "PYTHONPATH": str(ROOT)}, check=False).returncode


def main() -> int:
    """Run the slice under the lowest and the newest interpreter; return 1 where one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="tell which are here, and run nothing")
    parser.add_argument("--wide", action="store_true", help="more files, which take minutes")
    parser.add_argument("--strict", action="store_true", help="end with 1 where one of them, or its packages, cannot be had")
    options = parser.parse_args()
    own = sys.version_info[:2]
    wanted = supported((ROOT / "pyproject.toml").read_text("utf-8"))
    found = find([*wanted, _NEWER], os.environ)
    names = {version: "{}.{}".format(*version) for version in (*wanted, _NEWER)}
    sys.stdout.write(f"Here: {', '.join(f'{names[each]} ({path})' for each, path in found.items()) or 'none'}\n")
    if missing := [names[each] for each in names if each not in found and each != own]:
        sys.stdout.write(f"Not found, so not tried: Python {', '.join(missing)}\n")
    ends = {min(found), max(found)} if found else set()
    chosen = sorted(ends - {own})
    if options.list:
        return 0
    files = WIDE if options.wide else SLICE
    untried = int(options.strict)
    codes = [run(version, found[version], version == min(found), files, untried) for version in chosen]
    needed = {min(wanted), max(wanted)} - {own}
    return int(any(codes) or (options.strict and not needed <= found.keys()))


if __name__ == "__main__":
    sys.exit(main())
