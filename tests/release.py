"""The list of what a release needs: `python -m tests.release` tells what is done, with `--run` it does what commands can do.

Facts are looked up each time. Which commands have passed for this very commit is kept in `.venv/release.json`, so that a walk
can be taken up again where it ended; what a command said is kept in `.venv/release`. A walk ends with the list of all commands:
how long each took, how many of its tests passed, which it skipped and why. Nothing is tagged, sent or published.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .browser.pictures import lacking
from .sources import ROOT

INTERRUPTED = 130
_LOOKS = 0.1  # seconds between two looks at what a command has written
_CLOSING = re.compile(r"\b\d+ (?:passed|skipped)\b.* in \d")  # line of pytest
_SKIPPED = re.compile(r"\bSKIPPED \[(\d+)\] .+?:\d+: (.+)")


class Fact(NamedTuple):
    """A statement about the files of a release, and the function that returns why it does not hold, "" where it does."""

    text: str
    lacks: Callable[[Path], str]


class Step(NamedTuple):
    """A command that must pass, and the function that returns what it needs and this machine lacks, "" where it has all."""

    command: str
    lacks: Callable[[], str] = str


def read(root: Path, name: str, pattern: str) -> str:
    """Return the first group of a pattern in a file, "" where there is none."""
    found = re.search(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
    return found[1] if found else ""


def version(root: Path) -> str:
    return read(root, "network/__init__.py", r'^VERSION = "(.+)"$')


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if re.fullmatch(r"\d+\.\d+\.\d+", text) else ()


def _numbered(root: Path) -> str:
    return "" if _numbers(version(root)) else f"network/__init__.py has VERSION {version(root)!r}"


def _untagged(root: Path) -> str:
    """Look at the tags of other commits: that of this one is no second release."""
    here = set(_git(root, "tag", "--points-at", "HEAD").split())
    others = [tag for tag in _git(root, "tag", "--list", "v*").split() if tag not in here]
    if f"v{version(root)}" in others:
        return f"the tag v{version(root)} is there: raise VERSION"
    newest = max(others, key=lambda tag: _numbers(tag[1:]), default="")
    later = _numbers(newest[1:]) > _numbers(version(root)) > ()
    return f"{newest} is later than VERSION {version(root)!r}" if later else ""


def _clean(root: Path) -> str:
    return "git status tells changes" if _git(root, "status", "--porcelain") else ""


def _dated(root: Path) -> str:
    heading = read(root, "CHANGELOG.md", r"^## (.+)$")
    found = re.fullmatch(rf"{re.escape(version(root))} \((\d{{4}}-\d\d-\d\d)\)", heading)
    if found is None:
        return f"CHANGELOG.md begins with '## {heading}', not '## {version(root)} (DATE)'"
    try:
        datetime.date.fromisoformat(found[1])
    except ValueError as error:
        return f"CHANGELOG.md has the date {found[1]}: {error}"
    return ""


def _cited(root: Path) -> str:
    told = read(root, "CITATION.cff", r"^version: (.+)$"), read(root, "CITATION.cff", r"^date-released: (.+)$")
    wanted = version(root), read(root, "CHANGELOG.md", r"^## .+ \((\d{4}-\d\d-\d\d)\)$")
    lines = f"'version: {wanted[0]}' and 'date-released: {wanted[1] or 'DATE'}'"
    return "" if told == wanted and all(told) else f"CITATION.cff must have the lines {lines}, got {told[0]!r} and {told[1]!r}"


def _results(root: Path) -> str:
    text = (root / "tests/equivalence/test_release.py").read_text("utf-8")
    return "" if f'("{version(root)}", ' in text else f"tests/equivalence/test_release.py has no row of {version(root)}"


def _browser() -> str:
    return ", ".join(f"{name} is not here" for name in lacking())


def _program(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"{name} is not here"


def _pythons() -> str:
    # needs what the tests need, and the list is told by any Python
    from . import pythons

    wanted = pythons.supported((ROOT / "pyproject.toml").read_text("utf-8"))
    ends = [each for each in (wanted[0], wanted[-1]) if each != sys.version_info[:2]]
    found = pythons.find(ends, os.environ)
    return ", ".join("Python {}.{} is not here".format(*each) for each in ends if each not in found)


FACTS = (
    Fact("the version has three numbers", _numbered),
    Fact("no other commit is a release of this version or a later one", _untagged),
    Fact("the changelog has its date", _dated),
    Fact("the citation has version and date", _cited),
    Fact("the results of this version are kept", _results),
    Fact("all is committed", _clean),
)
# first those that may fail without a fault of the code, for want of a network or a program; then by what they take
STEPS = (
    Step("make test"),
    Step("make audit"),
    Step("make docs", _program("node")),  # by which its search is asked
    Step("make browser", _browser),
    Step("make proofs", _program("maude")),
    Step("make extras"),
    Step("make long STRICT=--strict", _pythons),
    Step("make faults"),
    Step("make soak"),
    Step("make fuzz"),
    Step("make steady"),
    Step("make mutants"),
    Step("make dist"),
)


def unmet(root: Path) -> list[str]:
    """Return what is lacking of the facts, a line for each of all of them printed."""
    found = []
    for fact in FACTS:
        problem = fact.lacks(root)
        sys.stdout.write(f"[{' ' if problem else 'x'}] {fact.text}{f': {problem}' if problem else ''}\n")
        found += [problem] if problem else []
    return found


class Record:
    """Notes of which commands have passed for the commit of a checkout, and how; of how long each took, for any commit."""

    def __init__(self, root: Path) -> None:
        self._root, self._path, self._logs = root, root / ".venv" / "release.json", root / ".venv" / "release"
        self.commit = _git(root, "rev-parse", "HEAD")
        try:
            kept = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):  # there is none, or it was cut off
            kept = {}
        passed, took = kept.get("passed") if kept.get("commit") == self.commit else None, kept.get("took")
        self.passed: dict[str, str] = passed if isinstance(passed, dict) else {}
        self.took: dict[str, str] = took if isinstance(took, dict) else {}

    def add(self, command: str, how: str, took: str = "") -> None:
        """Note that a command has passed, and how long that took."""
        self.passed[command] = how
        if took:
            self.took[command] = took
        self._path.parent.mkdir(exist_ok=True)
        whole = self._path.with_suffix(".new")
        whole.write_text(json.dumps({"commit": self.commit, "passed": self.passed, "took": self.took}), "utf-8")
        whole.replace(self._path)

    def last(self, command: str) -> str:
        """Return how long a command took when it passed the last time, "" where it has not."""
        took = self.took.get(command)
        return f"the last time: {took}" if took else ""

    def log(self, command: str) -> Path:
        """Return the file for what a command says, in a folder that is there."""
        self._logs.mkdir(parents=True, exist_ok=True)
        return self._logs / f"{re.sub(r'[^A-Za-z0-9]+', '-', command)[-80:].strip('-')}.log"

    def moved(self) -> str:
        """Return why what a command has shown is not about this commit, "" where it is."""
        return "HEAD is another commit now" if _git(self._root, "rev-parse", "HEAD") != self.commit else _clean(self._root)


def called(command: str, root: Path, log: Path) -> int:
    """Run a command to its end, also after Ctrl-C, which its processes get, too; return its exit code.

    What it says is shown and kept. It writes to the file, of which this shows each new part: a process that it leaves behind
    would keep a pipe open.

    Args:
        command: words between spaces.
        root: the folder where it runs.
        log: the file for what it says.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    interrupted: list[int] = []
    # noted, not raised: it may come while a part is shown
    before = signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    try:
        with (
            log.open("wb") as writes,
            log.open("rb") as shown,
            subprocess.Popen(command.split(), cwd=root, stdout=writes, stderr=subprocess.STDOUT) as process,
        ):
            code = None
            while code is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_LOOKS)
                sys.stdout.write(decoder.decode(shown.read()))
                sys.stdout.flush()
    finally:
        signal.signal(signal.SIGINT, before)
    return INTERRUPTED if interrupted else code


def summary(said: str) -> str:
    """Return the numbers of tests in all closing lines of pytest, and a line for each reason why some were skipped."""
    numbers, reasons = Counter[str](), Counter[str]()
    for line in said.splitlines():
        if _CLOSING.search(line):
            numbers.update({word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped)", line)})
        elif found := _SKIPPED.search(line):
            reasons[found[2]] += int(found[1])
    told = "".join(f"; {numbers[word]} {word}" for word in ("passed", "skipped") if numbers[word])
    return told + "".join(f"\n      {number} x {reason}" for reason, number in reasons.most_common())


def walk(root: Path, steps: Sequence[Step], run: bool, elsewhere: Sequence[str] = (), keep_going: bool = False) -> int:
    """Tell the list, and with `run` do its commands until one fails; return how many entries are left.

    Args:
        root: the checkout.
        steps: the commands.
        run: whether to run those that have not passed.
        elsewhere: commands that are known to have passed for this commit on another machine.
        keep_going: whether to run each one that this machine can run, whatever fails and whichever facts are lacking.

    Raises: KeyboardInterrupt after Ctrl-C, once the command has ended and the list is told.
    """
    left, record = len(unmet(root)), Record(root)
    for command in elsewhere:
        record.add(command, "on another machine")
    told = {step.command: step.lacks() for step in steps if step.command not in record.passed}
    lacking = [command for command, problem in told.items() if problem]
    may_run = run and not (_clean(root) if keep_going else left or lacking)
    code = 0
    for command in [command for command in told if may_run and command not in lacking]:
        last = record.last(command)
        sys.stdout.write(f"    {command}, at {time.strftime('%H:%M')}{last and f'; {last}'}\n")
        sys.stdout.flush()
        begin, log = time.monotonic(), record.log(command)
        code, moved = called(command, root, log), record.moved()
        took = f"{(time.monotonic() - begin) / 60:.1f} minutes"
        if code:
            told[command] = f"exit code {code} after {took}: {log.relative_to(root)}"
        elif moved:
            told[command] = f"passed, but {moved}: once more"
        else:
            record.add(command, took + summary(log.read_text("utf-8", "replace")), took)
        if code == INTERRUPTED or moved or (code and not keep_going):
            break
    for command, _ in steps:
        how = record.passed.get(command) or told[command] or record.last(command)
        sys.stdout.write(f"[{'x' if command in record.passed else ' '}] {command}{f': {how}' if how else ''}\n")
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    left += len([step for step in steps if step.command not in record.passed])
    if not left:
        tag = f"v{version(root)}"
        sys.stdout.write(f"All is done. Now: git tag -s {tag} -m 'Release {version(root)}' && git push origin {tag}\n")
        sys.stdout.write("What follows the tag, and how to take it back, is in CONTRIBUTING.md, Release.\n")
    elif run and not may_run:
        sys.stdout.write("Nothing was run: mend what has no x and tells why. CONTRIBUTING.md, Release, says how.\n")
    else:
        sys.stdout.write(f"{left} of {len(FACTS) + len(steps)} are left.\n")
    return left


def main() -> int:
    """Walk through the list; return 0 where all of it is done."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", action="store_true", help="run the commands that have not passed for this commit")
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="with --run: go on after a failure, and beside facts and programs that are lacking",
    )
    parser.add_argument(
        "--passed",
        action="append",
        default=[],
        choices=[step.command for step in STEPS],
        metavar="COMMAND",
        help="note that it has passed for this commit on another machine; repeatable",
    )
    options = parser.parse_args()
    try:
        return int(walk(ROOT, STEPS, options.run, options.passed, options.keep_going) > 0)
    except KeyboardInterrupt:
        sys.stdout.write("Called again, it goes on with this command.\n")
        return INTERRUPTED
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{parser.prog}: a release is made in a checkout with its history, by git: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
