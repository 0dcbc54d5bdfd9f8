"""What makes a composition the same on all nodes: the arguments of its parts. And what a job loads of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parallel_sgd.codec import pipeline
from parallel_sgd.codec.compose.parts import identity


def test_an_identity_is_made_of_classes_and_arguments() -> None:
    top = ["TopK", {"rho": 0.1, "warmup": 0}]
    chain = pipeline.Clip(2.0) | pipeline.ErrorFeedback(pipeline.TopK(0.1) | pipeline.Int8())
    assert identity(chain) == [
        "Chain",
        {
            "stages": [
                ["Clip", {"norm": 2.0, "workers": 1}],
                ["ErrorFeedback", {"inner": ["Chain", {"stages": [top, ["Int8", {"block": 4096}]]}], "beta": 1.0}],
            ]
        },
    ]


QUANTISERS = ("floats", "grids", "one_bit", "quantizer", "stochastic")


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("Plain", ("named", "compose", "pipeline", "async_ps")),
        ("TopK", ("local", "merge_rules", "mixing", *QUANTISERS)),
    ],
)
def test_a_codec_loads_what_it_is_made_of(name: str, without: tuple[str, ...]) -> None:
    code = f"import sys; from parallel_sgd.codec import {name}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    words = {word for module in loaded if module.startswith("parallel_sgd.codec.") for word in module.split(".")[2:]}
    assert name == "Plain" or {"named", "memory", "sparsify"} <= words
    assert words.isdisjoint(without)
