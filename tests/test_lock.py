"""The lock file fits the project: every requirement of it is there, in a version that is allowed, and every file has a hash."""

from __future__ import annotations

import re
import sys

from packaging.requirements import Requirement

from .sources import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = (ROOT / "requirements" / "dev-3.11.txt").read_text("utf-8")
PINNED = re.compile(r"^([a-z0-9-]+)==([^ ]+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def test_the_lock_satisfies_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["dev"]]
    wanted += project["build-system"]["requires"]
    pins = {name: version for name, version, _ in PINNED.findall(TEXT)}
    for requirement in map(Requirement, wanted):
        if requirement.marker is None or requirement.marker.evaluate({"python_version": "3.11", "sys_platform": "linux"}):
            pin = pins.get(requirement.name.lower(), "0")
            assert requirement.specifier.contains(pin), f"run 'make lock': {requirement}, locked is {pin}"


def test_each_line_of_the_lock_has_its_hashes_and_none_an_address() -> None:
    names = re.findall(r"^([a-zA-Z0-9-]+)==", TEXT, re.MULTILINE)
    assert [name for name, _, _ in PINNED.findall(TEXT)] == names and len(names) == len(set(names)) > 40
    rest = re.sub(r" *#.*", "", PINNED.sub("", TEXT))
    assert not rest.strip() and "://" not in TEXT
