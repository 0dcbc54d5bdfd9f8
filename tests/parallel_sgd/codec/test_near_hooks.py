"""A method of a codec whose name is nearly that of a hook is told when the class is made: nothing would call it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from nn.extension import OverrideWarning
from parallel_sgd.codec import Answering, Plain


@pytest.mark.parametrize(
    ("base", "name", "told"),
    [
        (Plain, "do_something_to_safe_yourself", "do_something_to_save_yourself()"),
        (Plain, "is_dne", "is_done()"),
        (Answering, "anwser", "answer()"),
        (Plain, "recieve_late", "receive_late()"),
        (Plain, "anwser", "answer() of Answering"),
    ],
)
def test_the_hook_is_named(base: Any, name: str, told: str) -> None:
    bases = (base,) if base is Plain else (base, Plain)
    with pytest.warns(OverrideWarning) as caught:
        type(Plain)("Own", bases, {name: lambda self, *_: None, "__module__": __name__})
    assert [str(each.message) for each in caught] == [f"Own.{name}() is called by nothing here; did you mean {told}?"]


@pytest.mark.parametrize("names", [["records"], ["_is_dne"], ["is_done", "is_dne"], ["merge_all"]])
def test_names_of_the_author_are_left_alone(names: list[str]) -> None:
    """A helper beside a hook that the class overrides may well have a name like it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        type(Plain)("Own", (Plain,), dict.fromkeys(names, lambda self: True) | {"__module__": __name__})
