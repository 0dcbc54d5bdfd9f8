"""What every codec inherits, and what it may look up."""

from __future__ import annotations

import logging
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

from parallel_sgd.codec import (
    REQUIRED,
    BlockWeight,
    Codec,
    DummyCodec,
    GlobalSettings,
    MissingParameter,
    Plain,
    netEncapsulation,
)
from parallel_sgd.codec.choice import choose_codecs
from parallel_sgd.profiles import IIDBlockAssignment

from ..statements import covers


class Keep(Codec):
    """Holds what it is given."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        return None

    def receive_blocks(self, content: object) -> Any:
        return None


@covers("SUB-34")
def test_set_result_adds_by_default_and_get_result_empties() -> None:
    """Adding, replacing, emptying."""
    codec = Keep(3)
    assert codec.node_id == 3
    assert not codec.is_done()
    one = np.ones(2, np.float32)
    codec.set_result(one)
    codec.set_result(one)
    assert codec.is_done()
    np.testing.assert_array_equal(codec.get_result(), [2, 2])
    np.testing.assert_array_equal(one, [1, 1])
    assert codec.get_result() is None
    assert not codec.is_done()


@covers("SUB-34")
def test_an_operation_gets_the_old_result_or_none_and_replaces_it() -> None:
    """`op(old or None, new)`."""
    codec, seen = Keep(0), []

    def larger(old: np.ndarray | None, new: np.ndarray) -> np.ndarray:
        seen.append(old)
        return new if old is None else np.maximum(old, new)

    codec.set_result(np.array([1.0, 5.0]), larger)
    codec.set_result(np.array([2.0, 4.0]), larger)
    assert seen[0] is None
    np.testing.assert_array_equal(codec.get_result(), [2, 5])


def test_dispose_lets_go_of_the_result() -> None:
    codec = Keep(0)
    codec.set_result(np.ones(1))
    codec.dispose()
    assert not codec.is_done()


def test_record_writes_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "parallel_sgd.codec"):
        Keep(0).record("half the values are zero")
    assert caplog.messages == ["Codec: Keep, Report: half the values are zero"]


@pytest.mark.parametrize("targets", [[1, 2], (1, 2), {1, 2}, range(1, 3), iter([1, 2])])
def test_a_packet_goes_to_any_iterable_of_nodes(targets: object) -> None:
    assert netEncapsulation(targets, 0).targets == (1, 2)  # type: ignore[arg-type]


def test_a_packet_goes_to_one_node() -> None:
    assert netEncapsulation(-2, "x").targets == (-2,)
    assert netEncapsulation(np.int64(4), "x").targets == (4,)


def test_settings_give_assignment_and_parameters() -> None:
    assignment = IIDBlockAssignment(2)
    with GlobalSettings.use(assignment, {"bits": 4}):
        assert GlobalSettings.get_default() is assignment
        assert GlobalSettings.get_params("bits") == 4
        assert GlobalSettings.get_params("bits", REQUIRED) == 4
        assert GlobalSettings.get_params("bucket") == 0
        assert GlobalSettings.get_params("bucket", 512) == 512


def test_a_required_parameter_that_is_missing_names_codec_and_key() -> None:
    wanted = pytest.raises(MissingParameter, match="QSGD needs the parameter 'bits': pass codec_extra_parameters=")
    with GlobalSettings.use(IIDBlockAssignment(2)) as settings, wanted as caught:
        settings.codec = "QSGD"
        GlobalSettings.get_params("bits", REQUIRED)
    assert (caught.value.key, caught.value.codec) == ("bits", "QSGD")


def test_settings_outside_a_job_say_where_they_are_valid() -> None:
    with pytest.raises(LookupError, match="a class body runs before it"):
        GlobalSettings.get_params("bits")


def test_two_contexts_do_not_share_settings() -> None:
    """Several workers may live in one process."""
    contexts = [copy_context() for _ in range(2)]
    uses = [GlobalSettings.use(IIDBlockAssignment(value + 1), {"value": value}) for value in range(2)]
    for use, context in zip(uses, contexts, strict=True):
        context.run(use.__enter__)
    assert [context.run(GlobalSettings.get_params, "value") for context in contexts] == [0, 1]
    assert [context.run(GlobalSettings.get_default).node_count for context in contexts] == [1, 2]
    for use, context in zip(uses, contexts, strict=True):
        context.run(use.__exit__, None, None, None)


@covers("SUB-33")
def test_a_codec_is_chosen_for_all_variables_or_by_id() -> None:
    """a class, or a dict, the rest the default codec."""
    assert choose_codecs(None, Plain, 2) == [Plain, Plain]
    assert choose_codecs(DummyCodec, Plain, 2) == [DummyCodec, DummyCodec]
    assert choose_codecs({1: DummyCodec}, Plain, 3) == [Plain, DummyCodec, Plain]


@pytest.mark.parametrize(
    ("choice", "error", "words"),
    [
        ("Plain", TypeError, "must be a subclass of Codec or a dict of them by variable id, got 'Plain'"),
        ({0: int}, TypeError, "got <class 'int'>"),
        ({5: Plain}, ValueError, r"names variable 5, but the model has the variables 0\.\.2"),
    ],
)
def test_a_wrong_codec_is_refused(choice: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        choose_codecs(choice, Plain, 3)  # type: ignore[arg-type]
