"""What tasks print and log comes to the submitter: inline, with the future, or not at all."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from executor import ClusterExecutor
from network import NodeAssignment

from .calls import LIMIT, add

pytestmark = pytest.mark.processes
OUTPUT_BYTES = 1 << 20


def speak(number: int) -> int:
    print("number", number)
    thread = threading.Thread(target=print, args=("in a thread",))
    thread.start()
    thread.join()
    logging.getLogger("mine").warning("logged")
    return number


def test_of_a_cluster(agents: NodeAssignment, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Inline by default, with the future, or not at all; it is there before the result."""
    with ClusterExecutor(agents) as executor:
        assert executor.submit(speak, 3).result(LIMIT) == 3
        shown = capfd.readouterr().out.splitlines()
        assert [line.partition("] ")[2] for line in shown] == ["number 3", "in a thread"]
        assert all(line.startswith("[Node(") and " speak#0]" in line for line in shown)
        assert [record[0] for record in caplog.record_tuples if "mine: logged" in record[2]] == ["executor.tasks"]
    with ClusterExecutor(agents, output="future") as executor:
        futures: list[Any] = [executor.submit(speak, number) for number in range(10)]
        for number, future in enumerate(futures):
            assert future.result(LIMIT) == number
            assert future.output == f"number {number}\nin a thread\nWARNING mine: logged\n"
        assert executor.submit(add, 1).output == ""  # type: ignore[attr-defined]
    with ClusterExecutor(agents, output="off") as executor:
        quiet: Any = executor.submit(speak, 3)
        assert (quiet.result(LIMIT), quiet.output) == (3, "")
    assert capfd.readouterr().out == ""


def shout(text: str, count: int, by_logger: bool) -> str:
    if by_logger:
        logging.getLogger("mine").warning(text * count)
    else:
        print(text * count)
    return "heard"


@pytest.mark.parametrize(
    ("text", "count", "by_logger"),
    [
        ("x", 1_048_576, False),
        ("z", 2_000_000, True),
        ("\N{LATIN SMALL LETTER U WITH DIAERESIS}", 1_000_000, False),
        ("\N{EURO SIGN}" * 33 + "\n", 20_000, False),
    ],
)
def test_much_in_one_go(agents: NodeAssignment, text: str, count: int, by_logger: bool) -> None:
    """Of what a task prints or logs the first MiB comes, also when that is one line, in any script; it costs no node."""
    with ClusterExecutor(agents, output="future") as executor:
        future: Any = executor.submit(shout, text, count, by_logger)
        assert future.result(LIMIT) == "heard"
        told, _, note = future.output.partition("\n(")
        before = "WARNING mine: " if by_logger else ""
        whole = before + text * count
        assert whole.startswith(told := told.removesuffix("\n"))
        assert OUTPUT_BYTES - 4 <= len(told.encode()) <= OUTPUT_BYTES + len(before)
        assert note.endswith("bytes more are in the log of the job only)\n")
        assert executor.live_nodes == executor.nodes
