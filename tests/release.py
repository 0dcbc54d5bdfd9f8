"""The list of what a release needs: `python -m tests.release` tells what is done, with `--run` it does what commands can do.

Facts are looked up each time. What a command has passed for this very commit is kept in `.venv/release.json`, so that a walk
can be taken up again where it ended. Nothing is tagged, sent or published.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .sources import ROOT

COMMANDS = (
    "make test", "make long", "make faults", "make steady", "make soak", "make mutants", "make extras", "make browser",
    "make audit", "make docs", ".venv/bin/python -m build",
)  # fmt: skip


class Fact(NamedTuple):
    """A statement about the files of a release, and the function that returns why it does not hold, "" where it does."""

    text: str
    lacks: Callable[[Path], str]


def read(root: Path, name: str, pattern: str) -> str:
    """Return the first group of a pattern in a file, "" where there is none."""
    found = re.search(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
    return found[1] if found else ""


def version(root: Path) -> str:
    return read(root, "network/__init__.py", r'^VERSION = "(.+)"$')


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _numbered(root: Path) -> str:
    return "" if re.fullmatch(r"\d+\.\d+\.\d+", version(root)) else f"network/__init__.py has VERSION {version(root)!r}"


def _untagged(root: Path) -> str:
    return f"the tag v{version(root)} is there: raise VERSION" if _git(root, "tag", "--list", f"v{version(root)}") else ""


def _clean(root: Path) -> str:
    return "git status tells changes" if _git(root, "status", "--porcelain") else ""


def _dated(root: Path) -> str:
    heading = read(root, "CHANGELOG.md", r"^## (.+)$")
    wanted = rf"{re.escape(version(root))} \(\d{{4}}-\d\d-\d\d\)"
    return "" if re.fullmatch(wanted, heading) else f"CHANGELOG.md begins with '## {heading}', not '## {version(root)} (DATE)'"


def _cited(root: Path) -> str:
    told = read(root, "CITATION.cff", r"^version: (.+)$"), read(root, "CITATION.cff", r"^date-released: (.+)$")
    wanted = version(root), read(root, "CHANGELOG.md", r"^## .+ \((\d{4}-\d\d-\d\d)\)$")
    return "" if told == wanted and all(told) else f"CITATION.cff has version {told[0]!r} and date-released {told[1]!r}"


def _results(root: Path) -> str:
    text = (root / "tests/equivalence/test_release.py").read_text("utf-8")
    return "" if f'("{version(root)}", ' in text else f"tests/equivalence/test_release.py has no row of {version(root)}"


FACTS = (
    Fact("the version has three numbers", _numbered),
    Fact("no release has this version yet", _untagged),
    Fact("the changelog has its date", _dated),
    Fact("the citation has version and date", _cited),
    Fact("the results of this version are kept", _results),
    Fact("all is committed", _clean),
)


def unmet(root: Path) -> list[str]:
    """Return what is lacking of the facts, a line for each of all of them printed."""
    found = []
    for fact in FACTS:
        problem = fact.lacks(root)
        sys.stdout.write(f"[{' ' if problem else 'x'}] {fact.text}{f': {problem}' if problem else ''}\n")
        found += [problem] if problem else []
    return found


def walk(root: Path, commands: tuple[str, ...], run: bool) -> int:
    """Tell the list, and with `run` do its commands until one fails; return how many entries are left."""
    left = len(unmet(root))
    record = root / ".venv" / "release.json"
    commit = _git(root, "rev-parse", "HEAD")
    kept = json.loads(record.read_text("utf-8")) if record.exists() else {}
    passed = kept.get("passed", []) if kept.get("commit") == commit else []
    for number, command in enumerate(commands):
        if run and not left and command not in passed:
            sys.stdout.write(f"    {command}\n")
            sys.stdout.flush()
            if code := subprocess.run(command.split(), cwd=root, check=False).returncode:
                sys.stdout.write(f"[ ] {command}: exit code {code}\n")
                return len(commands) - number
            passed.append(command)
            record.parent.mkdir(exist_ok=True)
            record.write_text(json.dumps({"commit": commit, "passed": passed}), "utf-8")
        sys.stdout.write(f"[{'x' if command in passed else ' '}] {command}\n")
    left += len([each for each in commands if each not in passed])
    if not left:
        sys.stdout.write(f"All is done. Now: git tag -s v{version(root)}, and begin the next heading of CHANGELOG.md.\n")
    return left


def main() -> int:
    """Walk through the list; return 0 where all of it is done."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", action="store_true", help="run the commands that have not passed for this commit")
    return int(walk(ROOT, COMMANDS, parser.parse_args().run) > 0)


if __name__ == "__main__":
    sys.exit(main())
