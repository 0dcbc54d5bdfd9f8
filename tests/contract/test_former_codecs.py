"""Codecs written before `Traits` and the capabilities: they work as they did, with one warning that says the present form."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import cloudpickle
import numpy as np
import pytest

from nn.extension import HiddenName, OverrideWarning
from parallel_sgd import codec as codecs
from parallel_sgd.codec import (
    Answering,
    CheckingPackets,
    Codec,
    PacketTraits,
    Plain,
    Remembering,
    TakingLate,
    Tracking,
    Traits,
)
from parallel_sgd.codec.interfaces import age_counts, copies_of
from parallel_sgd.codec.traits import FORMER_FLAGS, IN_PACKETS
from tests.contract.test_names_of_parts import OwnCodec, run_codec

TEN = {
    *("traits", "node_id", "update_blocks", "receive_blocks", "set_result", "get_result", "is_done"),
    *("do_something_to_save_yourself", "dispose", "record"),
}


def _made(base: type[Any] = OwnCodec, **body: Any) -> tuple[Any, list[str]]:
    """A class, and what was warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kind = type(base)("Mine", (base,), {"__module__": __name__, **body})
    assert all(each.category is OverrideWarning and each.filename == __file__ for each in told)
    return kind, [str(each.message) for each in told]


def test_a_codec_has_ten_names_and_what_it_takes_on() -> None:
    assert {name for name in dir(Codec) if not name.startswith("_")} == TEN | {"of"}


VALUES: dict[str, Any] = dict.fromkeys(FORMER_FLAGS, True) | {"takes": "updates", "gives": "parameters", "forms": ((int,),)}


@pytest.mark.parametrize("name", FORMER_FLAGS)
def test_a_class_attribute_of_before_is_a_trait_with_one_warning(name: str) -> None:
    value = False if VALUES[name] is True and getattr(Codec, name) is True else VALUES[name]
    kind, told = _made(**{name: value})
    traits = kind.traits
    assert (getattr(traits.packets, IN_PACKETS[name]) if name in IN_PACKETS else getattr(traits, name)) == value
    assert getattr(kind, name) == getattr(kind(0), name) == value
    field = f"packets=PacketTraits({IN_PACKETS[name]}=" if name in IN_PACKETS else f"{name}={value!r}"
    (text,) = told
    assert text.startswith(f"Mine goes by names that Codec had before Traits: write traits = Traits({field}")
    assert _made(kind)[1] == []  # once: a subclass that says nothing itself is not told
    again: Any = cloudpickle.loads(cloudpickle.dumps(kind))
    assert again.traits == traits


def test_all_at_once_are_one_warning_that_says_what_to_write() -> None:
    kind, told = _made(
        needs_server=True, agrees=False, keeps_type=True, answer=lambda self, node: None, missing_blocks=lambda self: ()
    )
    assert told == [
        "Mine goes by names that Codec had before Traits: write traits = Traits(needs_server=True, agrees=False, "
        "packets=PacketTraits(keeps_type=True)), and derive from Answering, Tracking"
    ]
    assert kind.traits == Traits(needs_server=True, agrees=False, packets=PacketTraits(keeps_type=True))


METHODS: dict[str, tuple[type[Codec], Any]] = {
    "answer": (Answering, lambda self, node: None),
    "receive_late": (TakingLate, lambda self, content: None),
    "check": (CheckingPackets, lambda self, content, like: None),
    "state_dict": (Remembering, lambda self: {"a": 1}),
    "load_state_dict": (Remembering, lambda self, state: None),
    "missing_blocks": (Tracking, lambda self: [3]),
    "missing_nodes": (Tracking, lambda self: [3]),
    "staleness": (Tracking, Counter({1: 2})),
    "copies": (Tracking, property(lambda self: ())),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_before_takes_on_the_capability_with_one_warning(name: str) -> None:
    base, body = METHODS[name]
    kind, told = _made(**{name: body})
    assert issubclass(kind, base)
    assert told == [f"Mine goes by names that Codec had before Traits: derive from {base.__name__}"]
    assert run_codec(kind) == run_codec(OwnCodec)
    kind, told = _made(type("Base", (OwnCodec, base), {"__module__": __name__}), **{name: body})
    assert told == []


def test_super_and_codec_itself_reach_what_a_method_of_before_replaces() -> None:
    class Mine:
        def check(self, content: Any, like: Any) -> None:
            super().check(content, like)  # type: ignore[misc]
            Codec.check(self, content, like)  # type: ignore[attr-defined]

    with pytest.warns(OverrideWarning, match="derive from CheckingPackets"):
        kind: Any = type(OwnCodec)("Both", (Mine, OwnCodec), {"__module__": __name__})
    kind(0).check(np.zeros(3), None)
    assert Plain.traits.elementwise and Plain.joins()  # type: ignore[attr-defined]
    assert OwnCodec(0).state_dict() == {} and list(OwnCodec(0).missing_blocks()) == []  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'OwnCodec' object has no attribute 'other'"):
        OwnCodec(0).other  # type: ignore[attr-defined] # noqa: B018


def test_joins_of_before_is_elementwise_and_counts_for_its_class_alone() -> None:
    kind, told = _made(Plain, joins=classmethod(lambda cls: True))
    assert kind.traits.elementwise and "elementwise=True" in told[0]
    kind, _ = _made(Plain, by_arrival=True)
    assert not kind.traits.elementwise and not kind.traits.takes_sums and kind.traits.by_arrival and kind.traits.synchronous


def test_what_the_constructor_sets_counts_as_before() -> None:
    class Mine(OwnCodec):
        def __init__(self, node_id: int) -> None:
            super().__init__(node_id)
            self.forms = ((np.ndarray,),)
            self.copies = (((0, 1), 0),)
            self.staleness = Counter({1: 2})

    made = Mine(0)
    assert made.traits.packets.forms == ((np.ndarray,),) and Mine.traits.packets.forms == ()
    assert copies_of(made) == (((0, 1), 0),) and age_counts(made) == {1: 2}
    assert run_codec(Mine) == run_codec(OwnCodec)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(({each.name: 1}, f"Traits '{each.name}' must be") for each in fields(Traits)),
        ({"takes": "text"}, "Traits 'takes' must be 'gradients', 'updates', 'parameters' or None, got 'text'"),
        ({"synchronous": True, "asynchronous": True}, "must not both be True"),
    ],
)
def test_traits_are_checked_when_they_are_made(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        Traits(**arguments)


@pytest.mark.parametrize("name", [each.name for each in fields(PacketTraits)])
def test_traits_of_packets_are_checked_too(name: str) -> None:
    with pytest.raises(TypeError, match=f"PacketTraits '{name}' must be"):
        PacketTraits(**{name: 1})


def test_what_is_no_traits_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(HiddenName, match=r"Mine\.traits is a dict and hides Codec\.traits, which the engine reads as Traits"):
        _made(traits={"needs_server": True})


def test_a_subclass_changes_one_trait() -> None:
    kind, told = _made(Plain, traits=replace(Plain.traits, agrees=False))
    assert told == [] and not kind.traits.agrees and kind.traits.elementwise


def test_every_capability_is_exported() -> None:
    exported = {"Answering", "CheckingPackets", "PacketTraits", "Partial", "Remembering", "TakingLate", "Tracking", "Traits"}
    assert exported <= set(codecs.__all__)
