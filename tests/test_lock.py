"""The locks fit the project: every requirement of it is there, in a version that is allowed, and every file has a hash."""

from __future__ import annotations

import re
import sys

import pytest
from packaging.requirements import Requirement

from .sources import ROOT, library_files

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXTS = {name: (ROOT / "requirements" / f"{name}-3.11.txt").read_text("utf-8") for name in ("dev", "run")}
PINNED = re.compile(r"^([a-z0-9-]+)==([^ ]+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


@pytest.mark.parametrize("name", TEXTS)
def test_the_lock_satisfies_the_project(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += project["dependency-groups"].get(name, [])
    pins = {name: version for name, version, _ in PINNED.findall(TEXTS[name])}
    for requirement in map(Requirement, wanted):
        if requirement.marker is None or requirement.marker.evaluate({"python_version": "3.11", "sys_platform": "linux"}):
            pin = pins.get(requirement.name.lower(), "0")
            assert requirement.specifier.contains(pin), f"run 'make lock': {requirement}, locked is {pin}"


@pytest.mark.parametrize("name", TEXTS)
def test_each_line_of_the_lock_has_its_hashes_and_none_an_address(name: str) -> None:
    names = re.findall(r"^([a-zA-Z0-9-]+)==", TEXTS[name], re.MULTILINE)
    assert [name for name, _, _ in PINNED.findall(TEXTS[name])] == names and len(names) == len(set(names)) > 9
    rest = re.sub(r" *#.*", "", PINNED.sub("", TEXTS[name]))
    assert not rest.strip() and "://" not in TEXTS[name]


def test_the_image_has_the_files_that_the_tests_ran_with() -> None:
    assert set(PINNED.findall(TEXTS["run"])) <= set(PINNED.findall(TEXTS["dev"])), "run 'make lock'"


COMMANDS = re.compile(
    r"`(?:[\w./]*/)?pip install (-[^`]+|[\w.'][^`]*)`|^\$ .*?pip install ([^&#\n]+)|pip install ([\w.'<>=, \[\]-]+)\"",
    re.MULTILINE,
)
ELSE = {"pip", "atheris", "jupyterlab"}
"""Projects of others that a text names, and that no table of pyproject.toml has."""


def test_a_command_that_installs_names_what_an_index_has() -> None:
    """This project is in none, so it goes by its folder; extras and groups are those that there are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    listed = (
        entry
        for table in ([project["project"]["dependencies"]], extras.values(), groups.values())
        for row in table
        for entry in row
    )
    known = {Requirement(entry).name.lower() for entry in listed} | ELSE
    found = 0
    for path in (*library_files(), *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")):
        for told in COMMANDS.findall(path.read_text("utf-8")):
            words = re.split(r"\s+", "".join(told).replace("'", "").strip().rstrip("."))
            for before, word in zip(["", *words], words, strict=False):
                local = re.fullmatch(r"\.+(?:\[(.+)\])?|wheels/parallel_sgd-\*\.whl", word) if word else None
                if before == "--group":
                    assert word in groups, f"{path.name}: {told}"
                elif local is not None:
                    assert set((local[1] or "").split(",")) <= {*extras, ""}, f"{path.name}: {told}"
                elif word and not word.startswith("-"):
                    assert re.split(r"[<>=\[]", word)[0].lower() in known, f"{path.name}: {told}"
                    found += 1
    assert found > 10
