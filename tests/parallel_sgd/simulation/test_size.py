"""Simulations of many workers: what they share, what they keep of all and of a sample, and how their cost grows."""

from __future__ import annotations

import fcntl
import gc
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import parallel_sgd
from benchmarks.simulation.__main__ import FIFO, ring, run
from benchmarks.simulation.jobs import measured
from nn.optimizer import ParameterAveragingOptimizer
from parallel_sgd import codec as codecs
from parallel_sgd.codec import Codec
from parallel_sgd.engine.accounts import EVERY, RECEIVED, SENT, AccountError, Accounts, check_rows
from parallel_sgd.engine.channel import Others
from parallel_sgd.engine.merge import BlockTree
from parallel_sgd.profiles.blockassignment import DuplicateAssignment
from parallel_sgd.record.contents import misplaced
from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.identity import own_identity
from parallel_sgd.record.run import JobResult, RunManifest
from parallel_sgd.record.tables import read_table
from parallel_sgd.run_page import data
from parallel_sgd.simulation import kernel as kernels
from parallel_sgd.simulation.execution import Execution
from parallel_sgd.simulation.kernel import SAMPLE, Kernel, rare_collections
from tests.parallel_sgd.digits_job import plan_of
from tests.parallel_sgd.simulation.test_jobs import STAR, train, weights
from tests.sources import ROOT
from tests.statements import covers


def simulated(count: int, codec: type[Codec], folder: Path, steps: int = 2, nodes: Any = None, **given: Any) -> JobResult:
    """Train on simulated nodes with times that are given."""
    told = {"ps": codec.traits.needs_server, "compute": 0.001, "codec_time": 0, **given}
    return train(parallel_sgd.simulated(count, STAR, **told), codec, folder, steps)


def sums(result: JobResult) -> Counter[tuple[int, str, int]]:
    """Bytes on the wire by node, direction and variable."""
    found: Counter[tuple[int, str, int]] = Counter()
    for node, entries in result.accounts.items():
        for entry in entries:
            found[node, entry.direction, entry.variable] += entry.wire
    return found


def calls(work: Callable[[], object]) -> Counter[Any]:
    """The calls of functions of this project, by code."""
    found: Counter[Any] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


# ---- growth


@pytest.mark.long
@covers("SIM-20")
@pytest.mark.parametrize("name", ["Ring", "SyncPS"])
def test_calls_grow_with_the_packets(name: str, tmp_path: Path) -> None:
    """A job of 128 workers has so many times the calls of one of 64 as it has packets, and what is asked about each worker once
    is asked twice as often: the spans that it supplies, and the others that it talks to.
    """
    kind = getattr(codecs, name)
    simulated(2, kind, tmp_path / "warm")
    results: dict[int, JobResult] = {}
    counted = {}
    for count in (64, 128):
        folder = tmp_path / str(count)
        counted[count] = calls(lambda count=count, folder=folder: results.update({count: simulated(count, kind, folder, 1)}))
    packets = {count: sum(e.packets for node in result.accounts.values() for e in node) for count, result in results.items()}
    few, many = counted[64], counted[128]
    assert sum(many.values()) / sum(few.values()) < 1.15 * max(2.0, packets[128] / packets[64])
    for function in (BlockTree.cover, Others.__init__):
        code = function.__code__
        assert many[code] <= 2.2 * few[code] + 16, function


def test_dealing_grows_with_the_blocks() -> None:
    lines = {}
    for count in (64, 128):
        found: Counter[str] = Counter()

        def note(frame: FrameType, event: str, _: object, found: Counter[str] = found) -> Any:
            if "blockassignment" in frame.f_code.co_filename:
                found[event] += 1
                return note
            return None

        sys.settrace(note)
        try:
            DuplicateAssignment(count, 1)
        finally:
            sys.settrace(None)
        lines[count] = found["line"]
    assert lines[64] > 0 and lines[128] < 2.2 * lines[64]


def test_what_goes_to_all_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, posted = [], []
    pack, post = Kernel._pack, Kernel.post

    def packing(self: Kernel, key: Any, content: object) -> Any:
        made.append(pack(self, key, content))
        return made[-1]

    def posting(self: Kernel, *packet: Any) -> Any:
        posted.append(packet)
        return post(self, *packet)

    monkeypatch.setattr(Kernel, "_pack", packing)
    monkeypatch.setattr(Kernel, "post", posting)
    simulated(20, codecs.SyncPS, tmp_path, 1)
    variables = len({packet[2][-1] for packet in posted})
    assert len(posted) == 2 * 20 * variables
    assert len(made) == (20 + 1) * variables


# ---- what is kept


@pytest.mark.long
@pytest.mark.parametrize("name", ["Ring", "SyncPS"])
def test_a_sample_has_tables_and_all_have_rows_in_common_ones(name: str, tmp_path: Path) -> None:
    kind, workers = getattr(codecs, name), 18
    all_tables = simulated(workers, kind, tmp_path / "all", shared=False)
    sample = simulated(workers, kind, tmp_path / "sample")
    assert weights(sample) == weights(all_tables)
    folders = sorted(path.name for path in (sample.folder or tmp_path).glob("Node-*-Retrieve"))
    servers = ["Node--2-Retrieve"] if kind.traits.needs_server else []
    assert folders == servers + [f"Node-{node}-Retrieve" for node in range(SAMPLE)]
    assert sample.accounts == all_tables.accounts
    assert sample.history.rows == all_tables.history.rows
    assert [{**row, "time": 0} for row in sample.history.steps] == [{**row, "time": 0} for row in all_tables.history.steps]
    assert sample.history.traffic == all_tables.history.traffic
    assert sorted(sample.history.workers) == list(range(workers))
    assert sample.ledger is not None and all_tables.ledger is not None
    assert sample.ledger.path.read_text("utf-8") == all_tables.ledger.path.read_text("utf-8")
    assert sample.folder is not None
    assert list(misplaced(sample.folder, RunManifest.read(sample.folder))) == []


@covers("SIM-20")
def test_the_begin_and_end_repeat_nothing_for_each_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of workers that share a state only those with tables are named in the record, no table is read twice, and no history
    of a single worker is made unless it is asked for."""
    monkeypatch.setattr(data, "_MOST_LINES", 8)  # up to so many workers the page has a line of each
    seen: dict[int, list[int]] = {}
    results: list[JobResult] = []
    for count in (17, 21):
        counted = calls(lambda count=count: results.append(simulated(count, codecs.SyncPS, tmp_path / str(count), 1)))
        seen[count] = [counted[function.__code__] for function in (own_identity, read_table, JobHistory.__init__)]
    assert seen[17] == seen[21]
    folder = results[-1].folder
    assert folder is not None and sorted(RunManifest.read(folder).nodes) == ["-2", "0", "1", "2", "3"]
    assert len(results[-1].history.workers) == 21 and len(results[-1].history.workers[20].steps) == 1


def test_the_collector_of_cycles_looks_seldom_while_there_are_many() -> None:
    before = gc.get_threshold()
    for nodes in (16, 17):
        with rare_collections(nodes):
            assert (gc.get_threshold() == before) == (nodes == 16)
        assert gc.get_threshold() == before


def test_most_of_very_many_have_sums_of_their_accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulated(8, codecs.Ring, tmp_path / "whole")
    monkeypatch.setattr(kernels, "_MOST_BY_LINK", 7)
    result = simulated(8, codecs.Ring, tmp_path / "sums")
    assert [result.accounts[node] for node in range(SAMPLE)] == [whole.accounts[node] for node in range(SAMPLE)]
    assert {entry.peer for node in range(SAMPLE, 8) for entry in result.accounts[node]} == {EVERY}
    assert {key: value // 8 for key, value in sums(result).items()} == {key: value // 8 for key, value in sums(whole).items()}
    assert result.simulated and whole.simulated and result.simulated.digest == whole.simulated.digest


def accounts(node: int, rows: dict[tuple[str, int, int], int], by_link: bool = True) -> Accounts:
    found = Accounts(node, ["Plain"], lambda _: "tcp", by_link=by_link)
    for key, packets in rows.items():
        found.rows[key][:] = [packets, 8 * packets, packets, 0, 0]
    return found


def test_rows_that_do_not_agree_are_told() -> None:
    sender, receiver = accounts(0, {(SENT, 0, 1): 3}), accounts(1, {(RECEIVED, 0, 0): 2})
    with pytest.raises(AccountError, match=r"Node\(0\) sent \(3, 24, 27, 3\) of variable 0 to node\(1\) by tcp"):
        check_rows({0: sender, 1: receiver}, {})
    check_rows({0: sender, 1: receiver}, {(0, 1, 0): 1})
    with pytest.raises(AccountError, match=r"2 packets are in flight"):
        check_rows({0: sender, 1: receiver}, {(0, 1, 0): 2})
    with pytest.raises(AccountError, match=r"Node\(0\) sent"):
        check_rows({0: sender, 1: accounts(1, {})}, {})
    check_rows({0: sender}, {})  # the other one is gone, and told nothing


def test_sums_that_do_not_agree_are_told() -> None:
    sender, receiver = (accounts(node, {(way, 0, 1 - node): 3}, False) for node, way in ((0, SENT), (1, RECEIVED)))
    check_rows({0: sender, 1: receiver}, {})
    receiver.rows[RECEIVED, 0, 0][0] -= 1
    check_rows({0: sender, 1: receiver}, {(0, 1, 0): 1})
    with pytest.raises(AccountError, match="The packets that all nodes together have sent are not those"):
        check_rows({0: sender, 1: receiver}, {})


def test_a_node_waits_while_all_others_compute() -> None:
    """256 of them took longer in one process than the limit of a node that has a machine of its own."""
    plan = plan_of(DuplicateAssignment(256, 1))
    assert Execution().plan(plan).options.ssgd_timeout_limit == 256 * plan.options.ssgd_timeout_limit


# ---- fewer gradients


def test_a_job_of_few_gradients_has_the_times_and_bytes_of_one_of_all(tmp_path: Path) -> None:
    whole = simulated(8, codecs.Ring, tmp_path / "whole")
    few = simulated(8, codecs.Ring, tmp_path / "few", distinct=3)
    none = simulated(8, codecs.Ring, tmp_path / "none", learn=False)
    assert whole.simulated and few.simulated and none.simulated
    for result in (few, none):
        assert result.simulated and result.simulated.digest == whole.simulated.digest
        assert result.accounts == whole.accounts
    assert "3 different blocks in a batch" in str(few.simulated) and weights(few) != weights(whole)
    assert "time only, nothing is learned" in str(none.simulated)
    assert len(set(weights(few))) == 1
    more = simulated(8, codecs.Ring, tmp_path / "more", distinct=8)
    assert weights(more) == weights(whole) and "different" not in str(more.simulated)


def test_nothing_is_learned_of_times_alone(tmp_path: Path) -> None:
    steps = [simulated(4, codecs.SyncPS, tmp_path / str(count), count, learn=False) for count in (1, 3)]
    assert weights(steps[0]) == weights(steps[1])


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"distinct": 0}, ValueError, "'distinct' must be a positive integer, got 0"),
        ({"distinct": True}, ValueError, "'distinct' must be a positive integer, got True"),
        ({"learn": 1}, TypeError, "'learn' must be True or False, got 1"),
    ],
)
def test_bad_numbers_of_gradients_are_told(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        parallel_sgd.simulated(4, STAR, **given)


def test_workers_that_differ_have_gradients_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'learn' must be True for this job: its workers are not in equal states"):
        train(
            parallel_sgd.simulated(4, STAR, compute=0.001, codec_time=0, learn=False),
            codecs.LocalSGD,
            tmp_path,
            op_type=ParameterAveragingOptimizer,
        )


# ---- while it runs

_PROGRAM = """
import sys
import parallel_sgd
from parallel_sgd.codec import Ring
from tests.parallel_sgd.simulation.test_jobs import STAR, job_of

if __name__ == "__main__":
    nodes = parallel_sgd.simulated(20, STAR, compute=0.001, codec_time=0)
    job_of(4 * 20 * 5000).parallel(nodes, codec=Ring, block_size=4, epoch=1, directory=sys.argv[1], verbose=1)
"""


@pytest.mark.long
@covers("SIM-21")
@pytest.mark.processes
def test_progress_is_shown_and_an_interrupt_leaves_what_there_is(tmp_path: Path) -> None:
    """In a terminal: block steps, virtual seconds and events per second; then Ctrl-C."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(tmp_path)], stderr=writer, stdout=writer, env=environment)
    os.close(writer)
    said, limit = b"", time.monotonic() + 120
    try:
        shown = re.compile(rb"([0-9]+)/100000 .*[0-9.e+-]+ virtual s, [0-9,]*[1-9][0-9,]* events/s")
        while not ((match := shown.search(said)) and int(match[1]) > 200) and time.monotonic() < limit:
            if select.select([reader], [], [], 1.0)[0]:
                said = (said + os.read(reader, 1 << 16))[-4096:]
        assert match, said.decode("utf-8", "replace")
        child.send_signal(signal.SIGINT)
        while child.poll() is None and time.monotonic() < limit:
            if select.select([reader], [], [], 0.2)[0]:
                try:
                    said = (said + os.read(reader, 1 << 16))[-4096:]
                except OSError:  # the other end is closed
                    break
        assert child.wait(60) != 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        os.close(reader)
    (outcome,) = tmp_path.rglob("outcome.json")
    run_folder = outcome.parent
    assert (run_folder / "report.html").is_file()
    own = next(run_folder.glob("Node-0-Retrieve/TR-*-N(0).csv")).read_text("utf-8").splitlines()
    common = next(path for path in run_folder.glob("Node-0-Retrieve/TR-*.csv") if "-N(" not in path.name)
    rows = common.read_text("utf-8").splitlines()
    assert len(own) > 5 and len(rows) > 16 * 5
    assert {row.rpartition(",")[2] for row in rows[1:]} == {str(node) for node in range(SAMPLE, 20)}


# ---- figures, on a machine that does nothing else


@pytest.mark.long
@pytest.mark.alone
@covers("SIM-20")
@pytest.mark.parametrize(
    ("name", "workers", "seconds", "megabytes"),
    [("Ring", 1_000, 12, 2_500), ("SyncPS", 1_000, 2, 1_000), ("SyncPS", 10_000, 40, 3_000)],
)
def test_a_step_of_many_workers_takes_seconds(name: str, workers: int, seconds: float, megabytes: float) -> None:
    row = measured(name, workers, 5 if workers <= 1_000 else 1, "fifo")
    assert row.step <= seconds and row.peak <= megabytes
    assert row.outside <= max(1.0, row.step)


@pytest.mark.long
@pytest.mark.alone
@covers("SIM-20")
def test_the_sizes_of_a_ring_of_a_thousand_take_seconds() -> None:
    seconds, messages, _ = run(FIFO, ring(1_000))
    assert messages == 2 * 999 * 1_000 and seconds <= 20
