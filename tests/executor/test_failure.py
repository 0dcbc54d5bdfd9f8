"""Exceptions as data: which come back as themselves, which as RemoteError, and that nothing of theirs runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from executor.errors import NodeLost, RemoteError, RemoteTraceback
from executor.failure import TEXT_BYTES, pack_failure, unpack_failure
from executor.payload import Payload, pack_payload
from network.errors import ProtocolError

from .calls import Mistake


def trip(error: BaseException, classes: tuple[type, ...] = ()) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        payload = pack_failure(raised, classes)
    return unpack_failure(*payload, classes, 3)


class Loud(ValueError):
    """Its constructor must not run where it is made again."""

    made = 0

    def __init__(self, text: str, extra: object = None) -> None:
        super().__init__(text, extra)
        Loud.made += 1

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("nothing of the user's runs")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("key"),
        OSError(2, "No such file", "x.txt"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        StopIteration(7),
        SystemExit(3),
        ArithmeticError(),
    ],
)
def test_built_in_exceptions_come_back_as_themselves(error: BaseException) -> None:
    """Class, arguments and text are the same."""
    found = trip(error)
    assert type(found) is type(error)
    assert found.args == error.args
    assert str(found) == str(error)


def test_attributes_of_built_in_exceptions_are_there() -> None:
    """FileNotFoundError knows its errno and file, StopIteration its value."""
    found = trip(FileNotFoundError(2, "No such file", "x.txt"))
    assert isinstance(found, FileNotFoundError)
    assert (found.errno, found.filename) == (2, "x.txt")
    assert trip(StopIteration(7)).value == 7  # type: ignore[attr-defined]


def test_user_exceptions_are_made_without_their_constructors() -> None:
    """From the class table, or from a module that is imported; fields are set as data."""
    for classes in ((), (Mistake,)):
        found = trip(Mistake(5), classes)
        assert type(found) is Mistake
        assert (found.code, str(found)) == (5, "mistake 5")
    before = Loud.made
    found = trip(Loud("text", np.arange(3)))
    assert Loud.made == before + 1
    assert type(found) is Loud
    np.testing.assert_array_equal(found.args[1], np.arange(3))


def test_the_cause_tells_node_and_traceback() -> None:
    """The remote traceback is chained as text."""
    found = trip(ValueError("no"))
    assert isinstance(found.__cause__, RemoteTraceback)
    assert found.__cause__.node == 3
    assert "on node 3" in str(found.__cause__)
    assert "in trip" in found.__cause__.text
    assert found.__cause__.text.endswith("ValueError: no\n")


def test_notes_come_back() -> None:
    """What was added to an exception on its way is shown where it arrives."""
    error = ValueError("no")
    error.__notes__ = ["in row 7"]  # what `add_note` of Python 3.11 does
    assert trip(error).__notes__ == ["in row 7"]  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Nobody can set an attribute in the usual way, not even its cause."""

    code: int


def test_frozen_exceptions_come_back() -> None:
    """With their fields, and the traceback as cause."""
    found = trip(Frozen(7))
    assert type(found) is Frozen
    assert found.code == 7
    assert isinstance(found.__cause__, RemoteTraceback)


def test_fields_that_cannot_be_set_make_a_remote_error() -> None:
    """A class that refuses them here does not end the executor."""

    class Refusing(Exception):
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no fields")

    told = {"module": "", "name": "", "number": 0, "args": (), "fields": {"code": 1}, "message": "m", "text": ""}
    found = unpack_failure(*pack_payload(told), (Refusing,), 0)
    assert type(found) is RemoteError


def test_unknown_classes_come_back_as_remote_errors() -> None:
    """A class that this process cannot find: its name, message and traceback."""
    local = type("Local", (Exception,), {"__module__": "nowhere.at_all"})
    found = trip(local("text"))
    assert type(found) is RemoteError
    assert found.type_name == "nowhere.at_all.Local"
    assert str(found) == "nowhere.at_all.Local: text"
    assert isinstance(found.__cause__, RemoteTraceback)


def test_arguments_that_are_no_data_come_as_text() -> None:
    """The exception itself survives what it carries."""
    found = trip(ValueError({1}, [object]))
    assert type(found) is ValueError
    assert found.args == ("{1}", "[<class 'object'>]")


def test_what_cannot_be_made_again_is_a_remote_error() -> None:
    """A group of exceptions needs exceptions among its arguments, which are no data."""
    if hasattr(__builtins__, "ExceptionGroup") or "ExceptionGroup" in dir(__import__("builtins")):
        found = trip(ExceptionGroup("many", [ValueError(1)]))  # noqa: F821
        assert type(found) is RemoteError
        assert "many" in str(found)


def test_long_and_broken_messages() -> None:
    """A message that is too long is cut, one that cannot be shown says so."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    gone = trip(type("Gone", (Broken,), {"__module__": "nowhere"})())
    assert str(gone) == "nowhere.Gone: (Gone, which cannot be shown: RuntimeError)"
    found = trip(type("Gone", (Exception,), {"__module__": "nowhere"})("x" * 300_000))
    assert len(str(found)) < 2 * TEXT_BYTES


def test_whatever_an_exception_is_made_of_it_comes_back() -> None:
    """What it holds may raise when it is looked at; that ends no worker."""

    class Unshowable:
        __slots__ = ("lock",)

        def __repr__(self) -> str:
            raise RuntimeError("no text")

    class Secretive(Exception):
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no fields")

    class Torn(Exception):
        args = property(lambda self: 1 // 0)  # type: ignore[assignment]

    class Faceless(Exception):
        def __getattribute__(self, name: str) -> Any:
            if name in ("__traceback__", "__dict__"):
                raise OSError(name)
            return super().__getattribute__(name)

    class Leaving(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    assert trip(ValueError(Unshowable())).args == ("(Unshowable, which cannot be shown: RuntimeError)",)
    assert str(trip(type("Gone", (Leaving,), {"__module__": "nowhere"})())).endswith("which cannot be shown: SystemExit)")
    for cls, broken in ((Secretive, "RuntimeError"), (Torn, "ZeroDivisionError"), (Faceless, "OSError")):
        found = trip(cls("text"), (cls,))
        assert type(found) is cls
        assert isinstance(found.__cause__, RemoteTraceback)
        assert "in trip" in found.__cause__.text
        assert found.__cause__.text.endswith(f"(what it holds cannot be told: {broken})")


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"module": "builtins", "name": "ValueError", "number": -1, "args": [1], "fields": {}, "message": "", "text": ""},
        {"module": 1, "name": "ValueError", "number": -1, "args": (), "fields": {}, "message": "", "text": ""},
    ],
)
def test_malformed_descriptions_are_refused(told: object) -> None:
    """A node that describes no exception breaks the protocol."""
    with pytest.raises(ProtocolError):
        unpack_failure(*pack_payload(told), (), 0)


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("builtins", "eval"), ("builtins", "__build_class__"), ("os", "")]
)
def test_only_exceptions_can_be_named(module: str, name: str) -> None:
    """A description cannot make this process call or make anything else."""
    told = {"module": module, "name": name, "number": -1, "args": ("true",), "fields": {}, "message": "m", "text": ""}
    assert type(unpack_failure(*pack_payload(told), (), 0)) is RemoteError


def test_fields_with_special_names_are_left_out() -> None:
    """Nothing but plain fields is set."""
    told: dict[str, Any] = {"module": "builtins", "name": "ValueError", "number": -1, "args": (), "message": "", "text": ""}
    found = unpack_failure(*pack_payload({**told, "fields": {"__class__": "x", "a b": 1, "fine": 2}}), (), 0)
    assert vars(found) == {"fine": 2}


def test_lost_nodes_are_broken_executors() -> None:
    """Whoever catches BrokenExecutor catches them, and finds the node."""
    assert NodeLost("gone", 4).node == 4
    assert Payload(b"abc", [np.zeros(4)]).size > 32
