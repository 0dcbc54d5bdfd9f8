"""A run: how far each target has come, the worker that tries the inputs, what was found, and the table of it all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from .attempt import Finding, Tally
from .target import Target
from .targets import TARGETS
from .worker import clear, finding, number_in

CHUNK = 500  # inputs of one order
HANGS_SECONDS = 20.0  # of the processor, after which a worker that is at the same input is ended
WAITS = 15  # times as long on the clock, for one that waits
MOST_KEPT = 5  # inputs that fail alike
BEGIN, END = "<!-- fuzz: begin -->", "<!-- fuzz: end -->"


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Let Ctrl-C come after the block. A mask would not do: a thread of BLAS takes the signal, and Python acts on it here."""
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


class Worker:
    """A process that is started when it is first needed, and again when it has ended."""

    def __init__(self, hangs: float = HANGS_SECONDS, module: str = "tests.fuzz.worker") -> None:
        self._hangs, self._module = hangs, module
        self._process: subprocess.Popen[bytes] | None = None
        with tempfile.NamedTemporaryFile(prefix="fuzz-place-", delete=False) as file:
            self._place = Path(file.name)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._end()
        self._place.unlink()

    def attempts(self, target: Target, seed: int, begin: int, end: int) -> tuple[Tally, list[Finding]]:
        """The inputs from `begin` to `end`, also where one of them ends the process."""
        tally, found = Tally(), []
        waiting = [(begin, end)]
        while waiting:
            first, last = waiting.pop()
            answer, why = self._ask(target, seed, first, last)
            if answer is not None:
                tally.add(Tally(**answer[0]))
                found += map(finding, answer[1])
                continue
            number = max(number_in(self._place), first)
            what = "hung" if "seconds" in why else "crashed"
            tally.add(Tally(tried=1, **{what: 1}))
            found.append(Finding(target.name, what, number, why, target.hostile(seed, number)))
            waiting += [part for part in ((number + 1, last), (first, number)) if part[0] < part[1]]
        return tally, found

    def _ask(self, target: Target, seed: int, begin: int, end: int) -> tuple[Any, str]:
        """The answer, or None and why there is none."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        clear(self._place)
        process.stdin.write(json.dumps([target.name, seed, begin, end]).encode() + b"\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            begun, since, number = 0.0, 0.0, -1
            while not selector.select(0.25):
                now, used, clock = number_in(self._place), _seconds_used(process.pid), time.monotonic()
                if now != number:
                    number, begun, since = now, used, clock
                # on a machine with much to do the clock says little
                if number >= 0 and (used - begun > self._hangs or clock - since > WAITS * self._hangs):
                    self._end()
                    return None, f"no end within {self._hangs:g} seconds of the processor"
        line = process.stdout.readline()
        if line:
            return json.loads(line), ""
        process.communicate()
        code, self._process = process.returncode, None
        return None, f"the process ended by {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", self._module, str(self._place)]
            with _interrupted_later():
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _seconds_used(process: int) -> float:
    """Seconds of the processor that it has had."""
    try:
        times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


class Run:
    """A number of inputs with a seed, spread over targets by their weights; `save` and `load` let it go on later."""

    def __init__(self, seed: int, inputs: int, names: list[str] | None = None, done: dict[str, Tally] | None = None) -> None:
        self.seed, self.inputs, self.names = seed, inputs, names or list(TARGETS)
        self.done = {name: (done or {}).get(name, Tally()) for name in self.names}
        self.next = dict.fromkeys(self.names, 0)
        self._kept: dict[tuple[str, str], int] = {}

    @property
    def shares(self) -> dict[str, int]:
        """How many inputs each target gets."""
        whole = sum(TARGETS[name].weight for name in self.names)
        return {name: math.ceil(self.inputs * TARGETS[name].weight / whole) for name in self.names}

    @property
    def total(self) -> Tally:
        total = Tally()
        for tally in self.done.values():
            total.add(tally)
        return total

    def orders(self) -> Iterator[tuple[str, int, int]]:
        """What is left to do: name and range of numbers, the target that is most behind first."""
        shares = self.shares
        while True:
            name = min(self.names, key=lambda one: self.next[one] / shares[one])
            begin, end = self.next[name], min(self.next[name] + CHUNK, shares[name])
            if begin >= end:
                return
            yield name, begin, end

    def note(self, name: str, end: int, tally: Tally) -> None:
        self.done[name].add(tally)
        self.next[name] = end

    def save(self, path: Path) -> None:
        content = {"seed": self.seed, "inputs": self.inputs, "next": self.next}
        content["done"] = {name: asdict(tally) for name, tally in self.done.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(content, indent=1))
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path) -> Run:
        """Raises: OSError, ValueError, KeyError, TypeError for a file that `save` has not written."""
        content = json.loads(path.read_text())
        done = {name: Tally(**tally) for name, tally in content["done"].items()}
        run = cls(content["seed"], content["inputs"], list(done), done)
        run.next |= content["next"]
        return run

    def keep(self, folder: Path, found: Finding) -> Path | None:
        """Write the input, and what is known of it, unless there are enough that fail alike."""
        key = found.target, found.place
        self._kept[key] = self._kept.get(key, 0) + 1
        if self._kept[key] > MOST_KEPT:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9]+", "-", found.target).strip("-")
        path = folder / f"{name}-{found.what}-{found.number}.bin"
        path.write_bytes(found.data)
        path.with_suffix(".txt").write_text(
            f"{found.target}\n{found.what}, input {found.number} of seed {self.seed}\n{found.detail}\n"
        )
        return path

    def table(self) -> str:
        """For docs/security.md."""
        columns = "Reader | Tried | Refused | Incomplete | Read as what it says | Accepted | Crashed | Hung | Beyond its memory"
        rows = [f"| {columns} | Most memory |", "|---" + "|---:" * 9 + "|"]
        for name, tally in [*self.done.items(), ("**all**", self.total)]:
            counts = (tally.tried, tally.refused, tally.incomplete, tally.read, *bad_of(tally))
            rows.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {tally.most / 1024:,.0f} KiB |")
        return "\n".join(rows)


def bad_of(tally: Tally) -> tuple[int, int, int, int]:
    return tally.accepted, tally.crashed, tally.hung, tally.memory


def write_table(path: Path, text: str) -> None:
    """Put `text` between the marks in `path`.

    Raises: ValueError where it has none.
    """
    before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} must have the lines {BEGIN} and {END}.")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", "utf-8")
