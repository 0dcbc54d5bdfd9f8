"""What is wrong with a cluster, from what was measured: each fault in its sentence, and none that is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from network import VERSION
from network.nodes import Address
from rpc.agent.checks import python_version
from rpc.doctor.report import Pair, Report, Worker
from rpc.messages import AgentStatus, Measured

LINK = Measured("", "", "", 0.001, 0.0, 0.0005, 1e8)


def cluster(count: int = 3) -> Report:
    """Hosts that are all well."""
    workers = []
    for number in range(count):
        names = (f"{number:032x}", f"host-{number}", f"box{number}", VERSION, python_version(), "/sock")
        status = AgentStatus(*names, 1, 0, "/work", 1 << 30, "")
        link = replace(LINK, instance=status.instance)
        workers.append(Worker(Address(f"10.0.0.{number}", 1), "", VERSION, status, link))
    pairs = [
        Pair(one.address, other.address, other.link) for one in workers for other in workers if one is not other and other.link
    ]
    return Report("0f" * 8, workers, pairs)


def with_status(report: Report, place: int, **changes: object) -> Report:
    worker = report.workers[place]
    assert worker.status is not None
    report.workers[place] = replace(worker, status=replace(worker.status, **changes))  # type: ignore[arg-type]
    return report


def with_link(report: Report, place: int, **changes: object) -> Report:
    report.pairs[place] = replace(report.pairs[place], found=replace(report.pairs[place].found, **changes))  # type: ignore[arg-type]
    return report


def behind(report: Report, place: int, seconds: float) -> Report:
    worker = report.workers[place]
    report.workers[place] = replace(worker, link=replace(LINK, instance=f"{place:032x}", offset=-seconds))
    return report


def moved(report: Report, place: int, host: str) -> Report:
    """The same cluster, one worker of which was named by another address."""
    old, new = report.workers[place].address, Address(host, 1)
    report.workers[place] = replace(report.workers[place], address=new)
    report.pairs = [
        replace(pair, source=new if pair.source == old else pair.source, target=new if pair.target == old else pair.target)
        for pair in report.pairs
    ]
    return report


def lost(report: Report, place: int, why: str) -> Report:
    """The same cluster, one worker of which has ended while ways were measured: none from it or to it is known."""
    gone = report.workers[place] = replace(report.workers[place], problem=why)
    for number, pair in enumerate(report.pairs):
        if gone.address in (pair.source, pair.target):
            with_link(report, number, problem="It is lost.", bandwidth=0.0)
    return report


def test_nothing_is_wrong() -> None:
    """A clock that may be right, speeds that differ a little, or by much on one host."""
    one_host = with_link(cluster(), 0, bandwidth=1e6)
    for place in range(3):
        with_status(one_host, place, host="host")
    wide = cluster()
    wide.workers[0] = replace(wide.workers[0], link=replace(LINK, offset=1.4, uncertainty=0.5))
    for report in (cluster(1), cluster(), with_link(cluster(), 0, bandwidth=3e7), one_host, wide):
        assert report.problems == [] and report.as_text().endswith("All is well.")


def test_a_worker_with_a_job_is_well() -> None:
    """A monitor that runs the command alarms nobody whenever a job runs; who wants to submit one is told."""
    report = with_status(cluster(), 1, jobs=1)
    assert report.problems == []
    head, end = report.as_text().rsplit("\n\n", 1)
    assert end == "All is well." and "\n\nNo free slot for another job: 10.0.0.1:1. Wait for the jobs there" in head
    assert [worker["free_slots"] for worker in report.as_data()["workers"]] == [1, 0, 1]
    # of a worker that is gone nothing else is told
    gone = lost(report, 1, "It is lost.")
    assert "No free slot" not in gone.as_text() and len(gone.problems) == 1


@pytest.mark.parametrize(
    ("report", "subject", "sentence"),
    [
        (behind(cluster(), 1, 2.5), "10.0.0.1:1", "its clock is 2.5 s behind the one here. Set the clocks"),
        (behind(cluster(), 1, 30 * 86400), "10.0.0.1:1", "its clock is 30 days behind the one here."),
        (behind(cluster(), 1, 7200), "10.0.0.1:1", "its clock is 2 h behind the one here."),
        (with_link(cluster(), 0, offset=1.5), "10.0.0.1:1", "its clock is 1.5 s ahead of that of 10.0.0.0:1. Set the clocks"),
        (with_link(cluster(), 2, bandwidth=1e6), "10.0.0.1:1", "sends 1 MB/s to 10.0.0.0:1, where other pairs have 100 MB/s."),
        (with_link(cluster(2), 0, bandwidth=1e6), "10.0.0.0:1", "sends 1 MB/s to 10.0.0.1:1, where other pairs have 100 MB/s."),
        (with_status(cluster(), 0, unix_path=""), "10.0.0.0:1", "it has no Unix socket, so its jobs share no memory"),
        (
            with_status(cluster(), 0, unwritable="No space left on device", free_bytes=0),
            "10.0.0.0:1",
            "no job can begin in its work directory /work: No space left on device. Make room there",
        ),
        (
            with_status(cluster(), 0, free_bytes=1 << 20),
            "10.0.0.0:1",
            "its work directory /work has room for 1 MiB. Make more there: what one job prints may take 64 MiB.",
        ),
        (with_status(cluster(), 0, python="2.7"), "10.0.0.0:1", "it runs Python 2.7, this is Python"),
        (with_link(cluster(), 0, instance="f" * 32), "10.0.0.0:1", "reaches another worker at 10.0.0.1:1 than this machine"),
        (
            with_link(cluster(), 0, problem="Timed out.", bandwidth=0.0),
            "10.0.0.0:1",
            "does not reach 10.0.0.1:1, which answers here: Timed out. Look for a firewall",
        ),
        (
            moved(with_link(cluster(2), 0, problem="Connection refused.", bandwidth=0.0), 1, "127.0.0.1"),
            "127.0.0.1:1",
            "a loopback address, which means another machine to 10.0.0.0:1. Start the worker with --listen 0.0.0.0",
        ),
        (
            moved(with_link(cluster(2), 0, instance="f" * 32), 1, "localhost"),
            "localhost:1",
            "a loopback address, which means another machine to 10.0.0.0:1.",
        ),
        (
            Report("0f", [Worker(Address("a", 1), "", "0.9.0")]),
            "a:1",
            f"it runs version 0.9.0, this is {VERSION}. Install the same release everywhere",
        ),
        (
            Report("0f", [Worker(Address("a", 1), "a:1: The peer says \x1b[2J.")]),
            "a:1",
            r"The peer says \x1b[2J.",  # what a peer says does not reach the terminal as it came
        ),
        (lost(cluster(), 1, "it was lost: so."), "10.0.0.1:1", "it was lost: so."),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_each_fault_has_its_sentence(report: Report, subject: str, sentence: str) -> None:
    (problem,) = report.problems
    assert problem.subject == subject and str(problem).startswith(f"{subject}: {sentence}"), problem
    assert f"1 thing is wrong:\n* {problem}" in report.as_text()
    assert report.as_data()["problems"] == [{"subject": subject, "what": problem.what, "repair": problem.repair}]


def test_the_row_of_a_worker_that_was_lost_and_of_a_clock_that_is_right() -> None:
    report = lost(behind(cluster(), 0, 4e-6), 1, "it was lost: so.")
    first, gone = report.as_text().splitlines()[1:3]
    assert " +0.00 ms ± 0.50 ms " in first and gone.split()[-4:] == ["lost", "-", "-", "-"]
    assert [worker["free_slots"] for worker in report.as_data()["workers"]] == [1, None, 1]
