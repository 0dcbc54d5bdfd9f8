"""The submitter's thread against nodes that lie: nothing they send can run, hang a future, or end another's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from executor.dispatcher import Dispatcher
from executor.errors import NodeLost
from executor.functions import Functions
from executor.job import Ending
from executor.messages import BROKEN, FAILURE, RESULT
from executor.payload import pack_payload
from executor.queues import Cancellations
from executor.tasks import Task, TaskFuture
from network.errors import PeerLost, ProtocolError
from network.session import Session
from tests.network.wires import Talk, talk
from tests.processes.harness import wait_for

from .calls import LIMIT, add

ONE = pack_payload(1)


class Lair:
    """A dispatcher with one node, which the test plays."""

    def __init__(self, line: Talk) -> None:
        self.node, self._wait = line.server, line.wait
        self.ended = threading.Event()
        self.endings: dict[int, Ending] = {}
        self.is_heard = True
        self.looks = self._heartbeats = 0
        self.may_start = threading.Event()
        self.may_start.set()
        self.dispatcher = Dispatcher({0: line.client}, {0: "Node(0) at a lair"}, 0, False, self)
        self._function = Functions(lambda _: None).of(add)

    def look(self) -> dict[int, Ending]:
        self.looks += 1
        return self.endings

    def heartbeats(self, node: int) -> int:
        """One more for each question, while the node's agent is heard."""
        self._heartbeats += self.is_heard
        return self._heartbeats

    def start_again(self, node: int) -> Session:
        assert self.may_start.wait(LIMIT)
        raise PeerLost(node, "a lair", "it does not start")

    def end(self) -> None:
        self.ended.set()

    def submit(self) -> Future[Any]:
        future: TaskFuture[Any] = TaskFuture()
        self._function.begun += 1
        self.dispatcher.submit(Task(future, self._function, pack_payload([1]), False))
        return future

    def hear(self, word: str) -> list[Any]:
        """What the node is told, up to a message that begins with `word`."""
        heard: list[Any] = []
        while not heard or heard[-1][0] != word:
            while (message := self.node.take()) is None:
                self._wait([self.node.link], [], LIMIT)
                self.node.receive()
                assert self.node.lost is None
            heard.append(message.value)
        return heard

    def say(self, value: object) -> None:
        self.node.queue(value)
        assert self.node.send()


@contextmanager
def lair() -> Iterator[Lair]:
    with talk("unix") as line:
        made = Lair(line)
        try:
            yield made
        finally:
            made.dispatcher.finish()
            made.node.close()
            made.dispatcher.thread.join(LIMIT)
            assert made.ended.is_set()


def test_code_comes_first_and_once() -> None:
    """A node is told of a function before its first task; results may come in any order."""
    with lair() as it:
        first, second = it.submit(), it.submit()
        heard = it.hear("run")
        while sum(len(message[1]) for message in heard if message[0] == "run") < 2:
            heard += it.hear("run")
        assert [message[0] for message in heard].count("code") == 1
        assert heard[0][0] == "code"
        assert heard[1][1][0][:3] == [0, heard[0][1], False]
        it.say(["done", [[1, RESULT, 0.0, *pack_payload("b")], [0, RESULT, 0.0, *pack_payload("a")]]])
        assert (first.result(LIMIT), second.result(LIMIT)) == ("a", "b")


@pytest.mark.parametrize(
    "lie",
    [
        ["done", [[9, RESULT, 0.0, *ONE]]],
        ["done", [[0, RESULT, 0.0, *ONE], [0, RESULT, 0.0, *ONE]]],
        ["done", [[0, 7, 0.0, *ONE]]],
        ["done", [[0, BROKEN, 0.0, *ONE]]],
        ["said", [[0, 0, "", 5]]],
        ["said", [[0, 0, "", b"\xff"]]],
        ["done", [[0, RESULT, -1.0, *ONE]]],
        ["done", [[0, RESULT, float("nan"), *ONE]]],
        ["done", [[0, RESULT, 0.0, b"\xc1", []]]],
        ["done", [[0, RESULT, 0.0, ONE.tree, [1]]]],
        ["done", [[0, FAILURE, 0.0, *ONE]]],
        ["done", [[0]]],
        ["done", 0],
        ["back", []],
        ["back", [0]],
        ["run", []],
        "nonsense",
        None,
        ["done", [[0, RESULT, 0.0, *ONE], [1, RESULT, 0.0, b"\xc1", []], [2, RESULT, 0.0, *ONE]]],
    ],
)
def test_a_lying_node_is_lost(lie: object) -> None:
    """Results of tasks it does not have, twice, malformed or unasked: the connection ends, and so does every future."""
    with lair() as it:
        futures = [it.submit() for _ in range(4)]
        it.hear("run")
        it.say(lie)
        errors = [future.exception(LIMIT) for future in futures]
        assert all(isinstance(error, (NodeLost, ProtocolError, type(None))) for error in errors)
        assert any(errors)
        assert isinstance(errors[3], NodeLost)
        it.dispatcher.finish()
        it.dispatcher.thread.join(LIMIT)
        assert isinstance(it.dispatcher.broken, NodeLost)
        assert "No node is left: Node(0) at a lair" in str(it.dispatcher.broken)


def test_a_node_that_leaves_is_lost() -> None:
    """A farewell with tasks in hand is a loss as well."""
    with lair() as it:
        future = it.submit()
        it.hear("run")
        it.node.leave()
        assert it.node.send()
        error = future.exception(LIMIT)
        assert isinstance(error, NodeLost)
        assert "it has left" in str(error)


def test_an_agent_that_gets_no_processor_time_may_say_later_why() -> None:
    """As long as no heartbeat of it comes, it has not looked for the end of the process."""
    with lair() as it:
        it.is_heard = False
        future = it.submit()
        it.hear("run")
        it.node.leave()
        assert it.node.send()
        looks = it.looks
        wait_for(lambda: it.looks >= looks + 120, "more than two seconds to pass")
        assert not future.done()
        it.endings[0] = Ending("its process ended with exit code 3", 0, crashed=True)
        it.may_start.set()
        assert "exit code 3" in str(future.exception(LIMIT))


def test_a_node_that_is_started_again_is_not_lost_yet() -> None:
    """It is told apart while its new process starts, and lost when there will be none."""
    with lair() as it:
        it.may_start.clear()
        it.endings[0] = Ending("it crashed", -1, crashed=True)
        it.node.close()
        wait_for(lambda: it.dispatcher.restarting == {0}, "the node to be started again")
        it.may_start.set()
        wait_for(lambda: not it.dispatcher.restarting, "the start to fail")
        assert "it could not be started again" in it.dispatcher.lost[0]


@pytest.mark.parametrize("given", [True, False])
def test_the_node_decides_whether_a_task_can_be_cancelled(given: bool) -> None:
    """`cancel` asks for it, and says what the node says; until then the task is neither running nor cancelled."""
    with lair() as it:
        first, second = it.submit(), it.submit()
        hear_tasks(it, 2)
        wait_for(first.running, "the first task to be known to run")
        assert not second.running()
        said: list[bool] = []
        caller = threading.Thread(target=lambda: said.append(second.cancel()))
        caller.start()
        assert it.hear("back")[-1] == ["back", [1]]
        assert not second.done()
        it.say(["back", [1] if given else []])
        caller.join(LIMIT)
        assert said == [given]
        assert second.cancelled() is given
        it.say(["done", [[0, RESULT, 0.0, *pack_payload("a")]]])
        assert first.result(LIMIT) == "a"
        if not given:
            it.say(["done", [[1, RESULT, 0.0, *pack_payload("b")]]])
            assert second.result(LIMIT) == "b"


def test_who_does_not_wait_for_the_answer_has_not_cancelled() -> None:
    """A node that does not answer holds nobody up, not even once for each future; what it gives back later is executed."""
    with lair() as it:
        first, second = it.submit(), it.submit()
        hear_tasks(it, 2)
        assert second.cancel() is False
        assert second.cancel() is False
        it.hear("back")
        it.say(["back", [1]])
        assert it.hear("run")[-1][1][0][0] == 1
        it.say(["done", [[0, RESULT, 0.0, *pack_payload("a")], [1, RESULT, 0.0, *pack_payload("b")]]])
        assert (first.result(LIMIT), second.result(LIMIT)) == ("a", "b")


def test_within_the_thread_that_hears_the_answer_nothing_is_recalled() -> None:
    """A done callback runs there; it is told at once that the task cannot be cancelled."""
    cancellations = Cancellations(lambda: None, ())
    assert cancellations.ask(3, threading.current_thread()) is False
    assert not cancellations


def hear_tasks(it: Lair, count: int) -> None:
    """Play the node until it has so many tasks."""
    heard = it.hear("run")
    while sum(len(message[1]) for message in heard if message[0] == "run") < count:
        heard += it.hear("run")
