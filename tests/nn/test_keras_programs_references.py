"""Programs in the manner of keras.io's: lines that differ from Keras's, and losses of 20 steps beside those that Keras had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import benchmarks.keras_programs.__main__ as programs
from tests.nn.golden import Golden, optional

keras = optional("keras")


@pytest.mark.parametrize("name", programs.LINES)
def test_no_more_lines_differ_than_are_counted(name: str) -> None:
    lines, others = programs.changed_lines(name)
    assert 0 < others <= programs.LINES[name] <= lines


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Keras's own
@pytest.mark.parametrize("name", programs.LINES)
def test_losses_of_20_steps_are_those_of_keras(golden: Golden, name: str) -> None:
    weights, losses = programs.our_losses(name)

    def compute() -> list[Any]:
        return [np.array(programs.keras_losses(name, weights, 0.0))]

    (expected,) = golden(compute, *weights.values(), needs=keras)
    assert len(losses) == programs.STEPS
    expected.close(np.array(losses), rtol=0, atol=programs.CLOSE)
    assert losses[-1] != losses[0]


def test_variables_are_paired_by_what_they_are() -> None:
    ours, theirs = [("kernel", (2, 3), 1), ("bias", (3,), 2)], [("bias", (3,), "b"), ("kernel", (2, 3), "a")]
    assert programs.paired(ours, theirs) == [(1, "a"), (2, "b")]
    with pytest.raises(ValueError, match="no variable 'bias' of shape"):
        programs.paired(ours, theirs[1:])
    with pytest.raises(ValueError, match="has variables besides"):
        programs.paired(ours[:1], theirs)
    assert programs.keras_role("functional/multi_head_attention/attention_output/bias") == "output_bias"
