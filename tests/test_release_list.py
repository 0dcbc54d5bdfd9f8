"""The list of a release finds what is lacking, and runs its commands once for each commit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from network import VERSION

from . import release
from .sources import ROOT


def project(folder: Path, **changes: str) -> Path:
    """Make a repository that could be released, but for the `changes`, text by name of a file with `_` for `/` and `.`."""
    files = {
        "network/__init__.py": 'VERSION = "1.2.0"\n',
        "CHANGELOG.md": "# Changes\n\n## 1.2.0 (2026-12-01)\n\n## 1.1.0 (2026-11-01)\n",
        "CITATION.cff": "version: 1.2.0\ndate-released: 2026-12-01\n",
        "tests/equivalence/test_release.py": 'RESULTS = {("1.2.0", "2.4.6"): ""}\n',
        ".gitignore": ".venv/\nran\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changes.get(re.sub(r"\W", "_", name), text))
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "Begin")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({}, ""),
        (
            {"CHANGELOG_md": "## 1.2.0 (unreleased)\n"},
            "CHANGELOG.md begins with '## 1.2.0 (unreleased)', not '## 1.2.0 (DATE)'",
        ),
        ({"network___init___py": 'VERSION = "1.2"\n'}, "VERSION '1.2'"),
        ({"CITATION_cff": "version: 1.1.0\ndate-released: 2026-11-01\n"}, "CITATION.cff has version '1.1.0'"),
        ({"tests_equivalence_test_release_py": "RESULTS = {}\n"}, "has no row of 1.2.0"),
    ],
)
def test_what_is_lacking_is_told(
    changes: dict[str, str], lacks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = release.unmet(project(tmp_path, **changes))
    assert any(lacks in each for each in found) if lacks else found == []
    assert capsys.readouterr().out.count("[ ]") == len(found)


def test_what_is_not_committed_or_tagged_already_is_told(tmp_path: Path) -> None:
    place = project(tmp_path)
    git(place, "tag", "v1.2.0")
    (place / "new.txt").write_text("new")
    assert release.unmet(place) == ["the tag v1.2.0 is there: raise VERSION", "git status tells changes"]


def test_commands_run_once_for_a_commit_and_end_at_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = project(tmp_path)
    (place / "ran").mkdir()
    commands = (f"{sys.executable} -c pass", "mkdir ran/first", "mkdir ran/absent/second", "mkdir ran/third")
    assert release.walk(place, commands, run=False) == 4 and not (place / "ran/first").exists()
    assert release.walk(place, commands, run=True) == 2 and (place / "ran/first").exists()
    (place / "ran/absent").mkdir()
    assert release.walk(place, commands, run=True) == 0  # `mkdir ran/first` would fail, were it run again
    assert (place / "ran/third").exists() and "All is done. Now: git tag -s v1.2.0" in capsys.readouterr().out
    git(place, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "-q", "--allow-empty", "-m", "Go on")
    assert release.walk(place, commands, run=False) == 4


def test_the_files_of_this_project_agree() -> None:
    assert release.version(ROOT) == VERSION == release.read(ROOT, "CITATION.cff", r"^version: (.+)$")
    assert release.read(ROOT, "CHANGELOG.md", r"^## ([\d.]+)") == VERSION
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {command.split()[1] for command in release.COMMANDS if command.startswith("make ")} <= targets
