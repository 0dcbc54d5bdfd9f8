"""Values on agents: what data people return, registered types, and results that are no data for who trusts the nodes."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from executor import ClusterExecutor, ConversionError, NotData, register_value
from executor.values import REGISTRY
from network import NodeAssignment
from tests.sources import ROOT

from .calls import LIMIT, add

pytestmark = pytest.mark.processes


class Money:
    """Holds what is no data, and a hash of its own."""

    def __init__(self, cents: int) -> None:
        if cents < 0:
            raise ValueError(f"{cents} cents")
        self.cents, self.source = cents, iter(())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.cents == other.cents

    def __hash__(self) -> int:
        return hash(self.cents)


class Model:
    """A fitted one: its own field, and one that is no data."""

    def fit(self, numbers: Any) -> Model:
        self.mean, self.source, self.numbers = float(np.mean(numbers)), iter([1, 2]), np.array(numbers)
        return self


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "current", {})
    register_value(Money, lambda money: money.cents, Money)


@pytest.fixture(scope="module")
def executor(agents: NodeAssignment) -> Iterator[ClusterExecutor]:
    with ClusterExecutor(agents) as made:
        yield made


def test_what_data_people_return(executor: ClusterExecutor) -> None:
    """Frames, dates, sets: as arguments, as results, as parts of exceptions, in collections."""
    import pandas as pd  # only the worker of xdist that gets this test needs it

    days = pd.date_range("2026", periods=3, tz="UTC")
    frame = pd.DataFrame({"day": days, "text": ["a", "b", None], "kind": pd.Categorical(["x", "y", "x"])})
    found = executor.submit(lambda df: df[df.kind == "x"], frame).result(LIMIT)
    pd.testing.assert_frame_equal(found, frame[frame.kind == "x"])
    assert list(executor.map(set, ["aa", "b"], timeout=LIMIT)) == [{"a"}, {"b"}]
    totals = executor.submit(lambda: {dt.date(2026, 1, 1): Decimal("1.50"), (1, None): np.array(["a"])}).result(LIMIT)
    assert totals == {dt.date(2026, 1, 1): Decimal("1.50"), (1, None): np.array(["a"])}
    broadcast = executor.broadcast(frame)
    assert executor.submit(lambda: len(broadcast.value)).result(LIMIT) == 3

    def fail() -> None:
        raise KeyError(frozenset({1}), Decimal(2))

    error = executor.submit(fail).exception(LIMIT)
    assert isinstance(error, KeyError)
    assert error.args == (frozenset({1}), Decimal(2))


@pytest.mark.usefixtures("registered")
def test_registered_types_travel(executor: ClusterExecutor) -> None:
    """Both ways, in containers and as keys; the class is the one of this process."""
    found = executor.submit(lambda money: {Money(money.cents + 1): [money]}, Money(3)).result(LIMIT)
    assert found == {Money(4): [Money(3)]}
    assert [type(key) for key in found] == [Money]


@pytest.mark.usefixtures("registered")
def test_a_mistake_in_a_converter_fails_its_task(executor: ClusterExecutor) -> None:
    """No node is lost by it; what is registered anew is packed anew."""

    def owed() -> Any:
        return Money(5)

    assert executor.submit(owed).result(LIMIT) == Money(5)
    register_value(Money, lambda money: -money.cents, Money)
    with pytest.raises(ConversionError, match="'from_data' of Money raised ValueError: -5 cents"):
        executor.submit(owed).result(LIMIT)
    with pytest.raises(ConversionError, match="'from_data' of Money raised ValueError: -5 cents"):
        executor.submit(type, Money(5)).result(LIMIT)
    register_value(Money, lambda money: money.dollars, Money)  # type: ignore[attr-defined]
    with pytest.raises(ConversionError, match="'to_data' of Money raised AttributeError"):
        executor.submit(owed).result(LIMIT)
    register_value(Money, lambda money: money.cents, lambda cents: cents)  # type: ignore[arg-type,return-value]
    with pytest.raises(ConversionError, match=r"'from_data' of .*Money gave a int"):
        executor.submit(owed).result(LIMIT)
    assert executor.live_nodes == [0, 1]


def test_what_can_be_registered(executor: ClusterExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that does not travel by itself, with two callables that can go to the nodes."""
    import pandas as pd

    monkeypatch.setattr(REGISTRY, "current", {})
    with pytest.raises(TypeError, match="register_value 'type' must be a class, got 3"):
        register_value(3, str, int)  # type: ignore[arg-type]
    for kind in (int, dict, set, pd.DataFrame, np.ndarray, ClusterExecutor):
        with pytest.raises(ValueError, match="register_value 'type' must be one that does not travel by itself, got"):
            register_value(kind, str, int)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="register_value 'from_data' must be callable, got None"):
        register_value(Money, str, None)  # type: ignore[arg-type]
    lock = threading.Lock()
    register_value(Money, lambda money: lock.locked(), Money)
    with pytest.raises(TypeError, match="What register_value was given for Money cannot travel: cannot pickle"):
        executor.submit(add, 1)


PROGRAM = """
from executor import ClusterExecutor, register_value
from network.nodes import Address, NodeAssignment

class Span:
    def __init__(self, low, high):
        self.low, self.high, self.file = low, high, iter(())
    def widened(self):
        return Span(self.low - 1, self.high + 1)

register_value(Span, lambda span: (span.low, span.high), lambda data: Span(*data))
nodes = NodeAssignment(key_file={key!r})
nodes.add(0, Address.parse({address!r}))
with ClusterExecutor(nodes) as executor:
    (found,) = executor.map(lambda span: span.widened(), [Span(1, 2)])
    print(type(found) is Span, found.low, found.high)
"""


def test_a_class_of_the_main_program(agents: NodeAssignment) -> None:
    """As a cell of a notebook defines it: nothing but the registration is needed."""
    code = PROGRAM.format(key=str(agents.key_file), address=str(agents[0]))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=str(ROOT), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.stdout == "True 0 3\n", done.stderr


def fitted(numbers: Any) -> Model:
    return Model().fit(numbers)


def test_only_who_trusts_the_nodes_gets_what_is_no_data(agents: NodeAssignment, executor: ClusterExecutor) -> None:
    """Instances are of the classes of this process; arrays are not copied into the pickle; data stays data."""
    error = executor.submit(fitted, [1, 2]).exception(LIMIT)
    assert isinstance(error, NotData)
    with ClusterExecutor(agents, trust_results=True) as trusting:
        found = trusting.submit(fitted, np.arange(1_000_000.0)).result(LIMIT)
        assert type(found) is Model
        assert (found.mean, next(found.source), found.numbers.shape) == (499_999.5, 1, (1_000_000,))
        assert trusting.submit(set, "ab").result(LIMIT) == {"a", "b"}
        error = trusting.submit(threading.Lock).exception(LIMIT)
        assert isinstance(error, NotData)
        assert "is no data, nor can it be pickled" in str(error)
        with pytest.raises(ConversionError, match="A result cannot be loaded here: ZeroDivisionError"):
            trusting.submit(Unloadable).result(LIMIT)
        assert trusting.submit(add, 1, 2).result(LIMIT) == 3


class Unloadable:
    def __init__(self) -> None:
        self.source = iter(())

    def __reduce__(self) -> tuple[Any, ...]:
        return divmod, (1, 0)
