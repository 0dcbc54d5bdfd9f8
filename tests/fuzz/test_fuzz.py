"""Hostile inputs to every reader, in the gate and by the command: none accepted, none crashes, hangs or takes memory."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT
from tests.statements import covers

from .attempt import SLOWEST, Tally, attempt, attempts
from .planted import PLANTED, WHATS, is_bad
from .run import BEGIN, END, Run, Worker, write_table
from .targets import TARGETS

INPUTS = 10_000
RUN = Run(1, INPUTS)
COMMAND = [sys.executable, "-m", "tests.fuzz"]


@covers("SEC-1", "SEC-2", "SEC-3", "SEC-4", "SEC-8", "SEC-13", "SEC-22", "SUB-36")
@pytest.mark.parametrize("name", TARGETS)
def test_no_hostile_input_is_accepted_crashes_hangs_or_takes_memory(name: str) -> None:
    """Any error but those that the reader documents is a crash."""
    count = RUN.shares[name]
    tally, found = attempts(TARGETS[name], RUN.seed, range(count))
    assert not found, found[0].detail
    assert tally.tried > 0.8 * count and tally.slowest < SLOWEST
    assert not TARGETS[name].refusals or tally.refused + tally.incomplete > 0.5 * tally.tried


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_altered_is_honest(name: str) -> None:
    """The counterpart: unaltered, the same bytes are read; without the key no more than the records of one session."""
    for data in TARGETS[name].seeds:
        assert TARGETS[name].take(data) in ("read", "incomplete")


MANIFEST, ARCHIVE, CASE = (
    TARGETS[name].seeds[0] for name in ("manifests for standby drivers", "npz data sets", "records for a post-mortem")
)
DEEP = b'{"a":' * 400 + b"1" + b"}" * 400
# inputs that once crashed a reader
FOUND: list[tuple[str, bytes]] = [
    ("leases", b'{"term":1,"driver":' + DEEP + b"}"),
    ("states of attempts", b'{"attempt":1,"nodes":"x","recovery":{"restarts":1,"seen":[]}}'),
    ("states of attempts", b'{"attempt":1,"nodes":{"0":5},"recovery":{"restarts":1,"seen":[]}}'),
    ("states of attempts", b'{"attempt":1,"nodes":{},"recovery":{}}'),
    ("states of attempts", b'{"attempt":1,"nodes":{},"recovery":{"restarts":1e999,"seen":[]}}'),
    ("manifests for standby drivers", MANIFEST.replace(b"\xa7workers", b"\xa7Workers")),
    ("npz data sets", ARCHIVE[:-6] + b"\xff\xff\xff\0\0\0"),
    ("records for a post-mortem", CASE.replace(b'"size": 5', b'"size": Infinity')),
]  # fmt: skip


@covers("SUB-36")
@pytest.mark.parametrize(("name", "data"), FOUND, ids=[f"{name}-{place}" for place, (name, _) in enumerate(FOUND)])
def test_what_once_crashed_a_reader(name: str, data: bytes) -> None:
    found = attempt(TARGETS[name], data, 0, Tally())
    assert not found, found[0].detail


@pytest.mark.parametrize(("name", "number"), [("values and class table", 46_535), ("values of tasks", 26_358)])
def test_what_describes_nothing_once_it_is_altered_is_an_input_all_the_same(name: str, number: int) -> None:
    """These had ended a run."""
    assert TARGETS[name].hostile(3_447_318_799, number)


@pytest.mark.long
def test_a_reader_with_a_fault_is_found_and_the_rest_goes_on() -> None:
    """The counterpart of it all: every kind of fault is seen, and the input that does it is told, once."""
    with Worker(hangs=2.0, module="tests.fuzz.planted") as worker:
        for what, target in PLANTED.items():
            first, second = itertools.islice((number for number in itertools.count() if is_bad(target.hostile(5, number))), 2)
            tally, found = worker.attempts(target, 5, 0, second)
            assert [(each.what, each.number, each.data) for each in found] == [(WHATS[what], first, target.hostile(5, first))]
            assert tally.bad == 1 and tally.tried > 0.7 * second, what


def test_a_run_that_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    """The same inputs as in one go, each once."""
    name = "HELLO, parsed"
    whole, _ = attempts(TARGETS[name], 9, range(1200))
    run = Run(9, 1200, [name])
    for _ in range(3):
        orders = run.orders()
        _, begin, end = next(orders)
        run.note(name, end, attempts(TARGETS[name], 9, range(begin, end))[0])
        run.save(tmp_path / "state.json")
        run = Run.load(tmp_path / "state.json")
    assert next(run.orders(), None) is None
    assert (run.total.tried, run.total.refused, run.total.read) == (whole.tried, whole.refused, whole.read)


@pytest.mark.long
def test_the_command_writes_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    options = ["--inputs", "300", "--seed", "3", "--target", "key files", "--state", str(tmp_path / "state.json")]
    done = subprocess.run([*COMMAND, *options, "--write", str(page)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "seed 3" in done.stdout, done.stderr
    text = page.read_text()
    assert (
        text.startswith("before\n") and text.endswith("after\n") and "| key files | 300 | 300 |" in text and "old" not in text
    )
    page.write_text("no marks")
    with pytest.raises(ValueError, match="must have the lines"):
        write_table(page, "table")


@pytest.mark.long
def test_ctrl_c_keeps_the_state(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    command = [*COMMAND, "--seed", "3", "--target", "key files", "--state", str(state)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert "1,000,000 inputs, seed 3" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "go on with --resume" in process.communicate(timeout=60)[0]
    assert process.returncode == 130 and json.loads(state.read_text())["seed"] == 3
