"""Programs in the form that version 0.9 has taught run as they are: their names, their keywords, their packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rpc import Coordinator, SubmissionError
from rpc.agent.children import project_root

from ..statements import covers
from .executors import Hungry, Sum
from .harness import LIMIT, Cluster

# the shape of the programs to which the README of version 0.9 leads: a greeting, and a sum whose terms are dealt out
PROGRAM = """
import sys
import network
import rpc


class Greeter(rpc.AbsSimpleExecutor):
    def run(self, com: rpc.communication.Communication) -> object:
        for percent in range(101):
            com.report_progress(percent)
        return "Hello"


class Adder(rpc.AbsSimpleExecutor):
    def __init__(self, node_id: int, working_group: set, initializer_id):
        super().__init__(node_id, working_group, initializer_id)
        self.__terms = None

    def requests(self) -> list:
        return ["Terms"]

    def satisfy(self, reply: list) -> list:
        for package in reply:
            self.__terms = package.content()
        return []

    def ready(self) -> bool:
        return self.__terms is not None

    def run(self, com: rpc.Communication) -> object:
        return sum(self.__terms)


def deal(node_id: int, request: object) -> rpc.ReplyPackage:
    return rpc.ReplyPackage(list(range(node_id * 10, node_id * 10 + 10)) if request == "Terms" else None)


if __name__ == "__main__":
    nodes = network.NodeAssignment()
    nodes.add(1, sys.argv[1])
    with network.Request().request(nodes) as com:
        master = rpc.Coordinator(com)
        master.submit_group(Greeter)
        print(*master.join())

    nodes.add(0, sys.argv[2])
    with network.Request().request(nodes) as com:
        master = rpc.Coordinator(com)
        master.submit_group(Adder, package_size=18000)
        master.resources_dispatch(dispatch_map=deal)
        print(*master.join())
"""


@covers("SUB-10", "SUB-41")
def test_the_linked_programs_run_as_written(trio: Cluster, tmp_path: Path) -> None:
    """`rpc.communication`, nothing to dispatch, `dispatch_map`, packages, a log on the console."""
    addresses = [str(trio.nodes()[node]) for node in (0, 1)]
    environment = {**os.environ, "PSGD_KEY_FILE": str(trio.key_file), "PYTHONPATH": str(project_root())}
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", *addresses]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert done.stdout.splitlines() == ["{1: 'Hello'} False", "{0: 45, 1: 145} False"]
    told = [line.partition(": ")[2] for line in done.stderr.splitlines() if line.startswith("INFO P-SGD Submit@")]
    steps = ("Group submission", "Reply requirements", "Dispatch", "All the tasks")
    assert [line.partition(" to node")[0] for line in told if line.startswith(steps)] == [
        "Group submission complete ({1}).",
        "Dispatch complete.",
        "All the tasks are done.",
        "Group submission complete ({0, 1}).",
        "Reply requirements",
        "Reply requirements",
        "Dispatch complete.",
        "All the tasks are done.",
    ]


@covers("SUB-5")
def test_join_says_what_is_missing(trio: Cluster, tmp_path: Path) -> None:
    """Executors that ask before anybody answers are not left waiting; all nodes are free at once."""
    with trio.request() as com:
        coordinator = Coordinator(com, directory=tmp_path)
        coordinator.submit_group(Hungry)
        missing = r"Node\(\d\) asks for 'first', and nobody answers\. Call resources_dispatch\(reply\) before join\(\)"
        with pytest.raises(SubmissionError, match=missing):
            coordinator.join()
        for functions in ({}, {"reply": print, "dispatch_map": print}):
            with pytest.raises(TypeError, match="either 'reply' or 'dispatch_map', a function of"):
                Coordinator(com, directory=tmp_path).resources_dispatch(**functions)
    assert not trio.run(Sum, tmp_path).error


def test_join_does_not_start_what_was_stopped(trio: Cluster, tmp_path: Path) -> None:
    with trio.request() as com:
        coordinator = Coordinator(com, directory=tmp_path)
        coordinator.submit_group(Sum)
        coordinator.stop_executing()
        assert coordinator.join() == ({}, True)
