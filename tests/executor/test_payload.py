"""Exceptions as data: which come back as themselves, which as RemoteError, and that nothing of theirs runs."""

from __future__ import annotations

import builtins
import dataclasses
import pickle
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Any

import numpy as np
import pytest

from executor.errors import NodeLost, RemoteError, RemoteTraceback
from executor.payload import MOST_LEVELS, MOST_PARTS, TEXT_BYTES, Payload, pack_failure, pack_payload, unpack_failure
from network.errors import ProtocolError

from .calls import Mistake


def trip(error: BaseException, classes: tuple[type, ...] = ()) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        payload = pack_failure(raised, classes)
    return unpack_failure(*payload, classes, 3)


def described(**different: Any) -> dict[str, Any]:
    """What a node says of a ValueError without arguments, but for what is `different`."""
    told: dict[str, Any] = {"module": "builtins", "name": "ValueError", "number": -1, "base": "Exception"}
    told |= {"args": (), "fields": {}, "shown": {}, "parts": [], "message": "", "printed": True, "text": ""}
    return told | different


class Loud(ValueError):
    """Its constructor must not run where it is made again."""

    made = 0

    def __init__(self, text: str, extra: object = None) -> None:
        super().__init__(text, extra)
        Loud.made += 1

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("nothing of the user's runs")


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Nobody can set an attribute in the usual way, not even its cause."""

    code: int


def noted(error: Exception, *notes: str) -> Exception:
    error.__notes__ = list(notes)  # what `add_note` of Python 3.11 does
    return error


#: exceptions that come back as themselves, the class table, and attributes that they have
KEPT: list[tuple[BaseException, tuple[type, ...], dict[str, Any]]] = [
    (ValueError("no"), (), {}),
    (KeyError("key"), (), {}),
    (OSError(2, "No such file", "x.txt"), (), {}),
    (FileNotFoundError(2, "No such file", "x.txt"), (), {"errno": 2, "filename": "x.txt"}),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), (), {}),
    (StopIteration(7), (), {"value": 7}),
    (SystemExit(3), (), {"code": 3}),
    (ArithmeticError(), (), {}),
    (noted(ValueError("no"), "in row 7"), (), {"__notes__": ["in row 7"]}),
    (Mistake(5), (), {"code": 5}),  # its class from a module that is imported,
    (Mistake(5), (Mistake,), {"code": 5}),  # or from the table
    (Loud("text", "more"), (), {}),
    (Frozen(7), (), {"code": 7}),
]


@pytest.mark.parametrize(("error", "classes", "fields"), KEPT, ids=lambda value: repr(value)[:30])
def test_exceptions_come_back_as_themselves(error: BaseException, classes: tuple[type, ...], fields: dict[str, Any]) -> None:
    """Made without their constructors; the remote traceback is chained as text, and tells the node."""
    made = Loud.made
    found = trip(error, classes)
    assert type(found) is type(error) and Loud.made == made
    assert (found.args, str(found), repr(found)) == (error.args, str(error), repr(error))
    assert {name: getattr(found, name) for name in fields} == fields
    assert isinstance(found.__cause__, RemoteTraceback)
    assert found.__cause__.node == 3 and "on node 3" in str(found.__cause__) and "in trip" in found.__cause__.text
    shown = traceback.format_exception_only(type(error), error)[-1]
    assert found.__cause__.text.endswith(shown)


def test_what_this_process_cannot_make_is_a_remote_error() -> None:
    """A class that it cannot find, and one that refuses its fields: name, message and traceback."""

    class Refusing(Exception):
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no fields")

    found = trip(type("Local", (Exception,), {"__module__": "nowhere.at_all"})("text"))
    assert type(found) is RemoteError
    assert (found.type_name, str(found)) == ("nowhere.at_all.Local", "nowhere.at_all.Local: text")
    assert isinstance(found.__cause__, RemoteTraceback)
    told = described(number=0, args=(), fields={"code": 1}, message="m")
    assert type(unpack_failure(*pack_payload(told), (Refusing,), 0)) is RemoteError


class Unlike:
    """No data, and its str is not its repr."""

    def __str__(self) -> str:
        return "in words"

    def __repr__(self) -> str:
        return "<in brackets>"


def test_arguments_that_are_no_data_come_as_text() -> None:
    """The exception itself survives what it carries, and prints as it did: one argument by its str, more by their repr; arrays
    are data."""
    assert trip(ValueError(object, [object])).args == ("<class 'object'>", "[<class 'object'>]")
    for error in (ValueError(object, [object]), KeyError(object), KeyError((len, 1)), ValueError(Unlike())):
        found = trip(error)
        assert (type(found), str(found), repr(found)) == (type(error), str(error), repr(error))
    np.testing.assert_array_equal(trip(Loud("text", np.arange(3))).args[1], np.arange(3))


def raised_by(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_errors_of_numpy_can_be_printed() -> None:
    """Fields in slots come along; what needs more than data to print itself is a RemoteError that says what it printed."""
    axis = raised_by(lambda: np.zeros(2).sum(axis=5))
    found = trip(axis)
    assert type(found) is type(axis)
    assert str(found) == str(axis) == "axis 5 is out of bounds for array of dimension 1"
    assert found.axis == 5  # type: ignore[attr-defined]
    memory = raised_by(lambda: np.zeros(1 << 50))
    found = trip(memory)
    assert isinstance(found, MemoryError)
    assert type(found) is type(memory) or isinstance(found, RemoteError)
    assert str(memory) in str(found)
    assert "Unable to allocate" in "".join(traceback.format_exception(found))


class Counting(Exception):
    """What it prints depends on more than its arguments and fields."""

    def __str__(self) -> str:
        return f"seen {id(self)}"


class Missing(KeyError):
    """In a module that the other side may not have."""


def test_what_would_print_otherwise_is_a_remote_error() -> None:
    """With the original text, whatever the class makes of its fields here; and of the built-in kind that it is."""
    error = Counting()
    found = trip(error)
    assert type(found) is RemoteError and str(found) == f"{__name__}.Counting: seen {id(error)}"
    name = f"{__name__}.Missing"
    told = described(module=__name__, name="Missing", base="KeyError", args=("a",), message="'b'")
    found = unpack_failure(*pack_payload(told), (), 0)
    again = pickle.loads(pickle.dumps(found))
    for one in (found, again):
        assert isinstance(one, RemoteError) and isinstance(one, KeyError)
        assert (type(one), str(one), one.type_name) == (type(found), f"{name}: 'b'", name)
    for base in ("UnicodeDecodeError", "ExceptionGroup", "KeyboardInterrupt", "print", "nothing"):
        assert type(unpack_failure(*pack_payload(described(module="gone", base=base)), (), 0)) is RemoteError


def test_cause_context_and_notes_are_shown() -> None:
    """What led to an exception stands in the traceback of the node, its notes also where it arrives."""

    def chained() -> None:
        try:
            {}["key"]
        except KeyError as first:
            raise noted(ValueError("second"), "in row 7") from first

    def within() -> None:
        try:
            {}["key"]
        except KeyError:
            raise ValueError("second") from np.zeros(2).sum(axis=5)

    found = trip(raised_by(chained))
    shown = "".join(traceback.format_exception(found))
    assert "KeyError: 'key'\n\nThe above exception was the direct cause" in shown
    assert shown.endswith("ValueError: second\nin row 7\n") or sys.version_info < (3, 11)
    shown = "".join(traceback.format_exception(trip(raised_by(within))))
    assert "KeyError: 'key'\n\nDuring handling of the above exception" in shown
    assert "axis 5 is out of bounds" in shown


if sys.version_info >= (3, 11):  # Python 3.10 has no groups

    class Batch(builtins.ExceptionGroup[Exception]):
        """Its constructor takes other arguments than that of its base."""

        def __new__(cls, rows: str, parts: list[Exception]) -> Batch:
            made = super().__new__(cls, f"in {rows}", parts)
            made.rows = rows  # type: ignore[attr-defined]
            return made

    def test_groups_arrive_as_such() -> None:
        """`except*` finds the parts by their classes, at all levels, each with its notes and its traceback; also in a class of
        the user's with fields, made without its constructor, and what is no Exception."""
        inner = builtins.ExceptionGroup("inner", [Mistake(5), raised_by(lambda: np.zeros(1 << 50))])
        error = builtins.ExceptionGroup("outer", [ValueError(1), KeyError("k"), inner])
        error.add_note("of two levels")
        found: Any = trip(error)
        assert (type(found), str(found), found.__notes__) == (type(error), "outer (3 sub-exceptions)", ["of two levels"])
        mistakes, rest = found.split(Mistake)
        assert mistakes.exceptions[0].exceptions[0].code == 5
        assert [type(part) for part in rest.exceptions[:2]] == [ValueError, KeyError]
        assert "Unable to allocate" in str(rest.subgroup(MemoryError).exceptions[0].exceptions[0])
        assert isinstance(found.exceptions[2].exceptions[0].__cause__, RemoteTraceback)
        assert "of two levels" in found.__cause__.text
        batch: Any = trip(Batch("rows", [ValueError(1)]), (Batch,))
        assert (type(batch), batch.rows) == (Batch, "rows")
        leaving: Any = trip(builtins.BaseExceptionGroup("ends", [KeyboardInterrupt()]))
        assert type(leaving.exceptions[0]) is KeyboardInterrupt

    def test_groups_are_bounded() -> None:
        """A larger or deeper one comes as a RemoteError with its text; the traceback of a whole group is bounded."""
        many = trip(builtins.ExceptionGroup("many", [ValueError(number) for number in range(MOST_PARTS)]))
        assert type(many) is RemoteError
        assert str(many) == f"builtins.ExceptionGroup: many ({MOST_PARTS} sub-exceptions)"
        deep: Any = ValueError(1)
        for _ in range(MOST_LEVELS):
            deep = builtins.ExceptionGroup("deep", [deep])
        assert type(trip(deep)) is type(deep)
        assert type(trip(builtins.ExceptionGroup("deep", [deep]))) is RemoteError
        wide: Any = trip(builtins.ExceptionGroup("wide", [ValueError("x" * 1000) for _ in range(MOST_PARTS - 1)]))
        assert sum(len(part.__cause__.text) for part in wide.exceptions) <= TEXT_BYTES


def test_whatever_an_exception_is_made_of_it_comes_back() -> None:
    """What it holds may raise when it is looked at; that ends no worker. A message that is too long is cut."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

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
    for base, message in (
        (Broken, "nowhere.Gone: (Gone, which cannot be shown: RuntimeError)"),
        (Leaving, "nowhere.Gone: (Gone, which cannot be shown: SystemExit)"),
    ):
        assert str(trip(type("Gone", (base,), {"__module__": "nowhere"})())) == message
    assert len(str(trip(type("Gone", (Exception,), {"__module__": "nowhere"})("x" * 300_000)))) < 2 * TEXT_BYTES
    for cls, end in (
        (Secretive, "Secretive: text\n"),
        (Torn, "Torn: text\n"),
        (Faceless, "(what it holds cannot be shown: OSError)"),
    ):
        found = trip(cls("text"), (cls,))
        assert type(found) is cls
        assert str(found) == "text"
        cause = BaseException.__dict__["__cause__"].__get__(found)
        assert isinstance(cause, RemoteTraceback)
        assert "in trip" in cause.text
        assert cause.text.endswith(end)


@pytest.mark.parametrize(
    "told",
    [None, {}, *(described(**wrong) for wrong in ({"args": [1]}, {"module": 1}, {"shown": []}, {"parts": [{}]}, {"more": 1}))],
)
def test_malformed_descriptions_are_refused(told: object) -> None:
    """A node that describes no exception breaks the protocol."""
    with pytest.raises(ProtocolError):
        unpack_failure(*pack_payload(told), (), 0)


def test_a_description_makes_and_calls_nothing_else() -> None:
    """Only exceptions can be named, and nothing but plain fields is set."""
    for module, name in (("os", "system"), ("builtins", "eval"), ("builtins", "__build_class__"), ("os", "")):
        told = described(module=module, name=name, args=("true",), message="m")
        assert type(unpack_failure(*pack_payload(told), (), 0)) is RemoteError
    told = described(fields={"__class__": "x", "a b": 1, "fine": 2})
    assert vars(unpack_failure(*pack_payload(told), (), 0)) == {"fine": 2}


def test_lost_nodes_name_themselves() -> None:
    assert NodeLost("gone", 4).node == 4 and isinstance(NodeLost("gone"), BrokenExecutor)
    assert Payload(b"abc", [np.zeros(4)]).size > 32
