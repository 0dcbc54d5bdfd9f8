"""A slice of the suite under the lowest and the newest other Python of this machine: `python -m tests.pythons`.

The lowest has the oldest versions of dependencies that pyproject.toml allows, the newest the newest ones. Each has a virtual
environment in `.venv/pythons`, made anew when pyproject.toml has changed. Which Pythons are not here is told. With `--wide` all
but the newest have the oldest versions, and each oldest version must have a wheel for each Python that pyproject.toml names.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
# of pip: what it was asked for, and the versions that it found instead, the oldest first
_WITHOUT_WHEEL = re.compile(r"satisfies the requirement (\S+) \(from versions: (?!none\))([^)]*)\)")
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


class NotInstalled(Exception):
    """Packages that pip could not install.

    Args:
        told: what pip has said.
        version: the Python that they are for.

    Attributes: `is_bound`, whether an index has other versions with a wheel for this Python: then pyproject.toml allows too old
    a one.
    """

    def __init__(self, told: str, version: Version) -> None:
        python = "{}.{}".format(*version)
        found = _WITHOUT_WHEEL.search(told)
        self.is_bound = found is not None
        if found is not None:
            whole = [each for each in found[2].split(", ") if re.fullmatch(r"[\d.]+", each)]
            said = (
                f"pyproject.toml allows {found[1]} under Python {python}, for which it has no wheel; "
                f"the oldest of those that have one is {(whole or [found[2]])[0]}. Raise the bound for this Python, by a marker"
            )
        else:
            said = next((line for line in told.splitlines() if line.startswith("ERROR: ")), told.strip() or "pip said nothing")
        super().__init__(said)


def _chosen(texts: Iterable[str], version: Version, oldest: bool) -> list[str]:
    """Return the requirements that are for a Python, of the oldest versions if so."""
    needed = [Requirement(text) for text in texts]
    for each in needed:
        if oldest:
            each.specifier = SpecifierSet(str(each.specifier).replace(">=", "=="))
    here = {"python_version": "{}.{}".format(*version)}
    return [f"{each.name}{each.specifier}" for each in needed if each.marker is None or each.marker.evaluate(here)]


def requirements(version: Version, oldest: bool) -> list[str]:
    """Return what the slice needs: dependencies of the package, the oldest versions if so, and the tools of the tests."""
    content = project()
    tools = [text for text in content["dependency-groups"]["dev"] if Requirement(text).name in _TOOLS]  # type: ignore[index]
    needed = content["project"]["dependencies"]  # type: ignore[index]
    return [*_chosen(needed, version, oldest), *_chosen(tools, version, False)]


def bounds(version: Version) -> list[str]:
    """Return the oldest versions of dependencies and extras that pyproject.toml allows under a Python."""
    content = project()
    extras = content["project"]["optional-dependencies"].values()  # type: ignore[index]
    return _chosen([*content["project"]["dependencies"], *itertools.chain(*extras)], version, True)  # type: ignore[index]


def _install(command: Sequence[str], version: Version) -> None:
    """Run pip with wheels alone: an old version without one would be built from its sources for minutes, and fail.

    Raises: NotInstalled with the reason.
    """
    said = subprocess.run([*command, "--only-binary", ":all:"], capture_output=True, text=True, check=False)
    if said.returncode:
        raise NotInstalled(said.stderr, version)


def look_at_bounds(version: Version) -> int:
    """Look whether each oldest version has a wheel for a Python, which need not be here; tell of those that have none, and
    return how many there are.
    """
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--ignore-installed", "--python-version", "{}.{}".format(*version)]
    lacking, together = 0, bounds(version)
    # pip names the first that it cannot have
    for wanted in (together, *([each] for each in together)):
        with tempfile.TemporaryDirectory() as folder:
            try:
                _install([*pip, "--target", folder, *wanted], version)
            except NotInstalled as error:
                if wanted is not together:
                    lacking += error.is_bound
                    sys.stdout.write(f"{error}.\n")
            else:
                if wanted is together:
                    break
    return lacking


def environment(version: Version, interpreter: Path, oldest: bool) -> Path:
    """Make the virtual environment of a version unless it is there; return its interpreter.

    Raises: NotInstalled where its packages cannot be had.
    """
    place = ROOT / ".venv" / "pythons" / "{}.{}".format(*version)
    wanted = requirements(version, oldest)
    stamp = hashlib.sha256(repr([str(interpreter), *wanted]).encode()).hexdigest()
    made = place / ".made"
    if not made.exists() or made.read_text("utf-8") != stamp:
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([str(interpreter), "-m", "venv", str(place)], check=True)
        install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install.append("--no-compile")  # most of it is never imported
        _install([*install, *wanted], version)
        made.write_text(stamp, "utf-8")
    return place / "bin" / "python"


def run(version: Version, interpreter: Path, oldest: bool, files: Sequence[str] = SLICE, untried: int = 0) -> int:
    """Run a slice under an interpreter; return the exit code of pytest, or `untried` where its packages cannot be had now.

    That pyproject.toml allows a version that cannot be had under this Python is a failure.
    """
    title = "the oldest dependencies" if oldest else "the newest dependencies"
    sys.stdout.write(f"Python {version[0]}.{version[1]} ({interpreter}) with {title}:\n")
    sys.stdout.flush()
    try:
        python = environment(version, interpreter, oldest)
    except NotInstalled as error:  # such as without a network
        sys.stdout.write(f"Not tried: {error}.\n")
        return 1 if error.is_bound else untried
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
    """Run the slice under the lowest and the newest interpreter, or under all; return 1 where one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="tell which are here, and run nothing")
    parser.add_argument("--wide", action="store_true", help="more files, all Pythons, all bounds: takes minutes")
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
    chosen = sorted((found.keys() if options.wide else ends) - {own})
    if options.list:
        return 0
    files = WIDE if options.wide else SLICE
    untried = int(options.strict)
    codes = [run(version, found[version], version < max(found) or len(found) == 1, files, untried) for version in chosen]
    if options.wide:
        codes += map(look_at_bounds, wanted)
    needed = {min(wanted), max(wanted)} - {own}
    return int(any(codes) or (options.strict and not needed <= found.keys()))


if __name__ == "__main__":
    sys.exit(main())
