"""What makes a composition the same on all nodes: the arguments of its parts. And what a job loads of it."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import pytest

import parallel_sgd.codec
from nn.gradient_descent import ADAMOptimizer
from parallel_sgd.codec import compose, pipeline
from parallel_sgd.codec.compose import ExchangePattern, LocalRule, MergeRule, Trigger
from parallel_sgd.codec.compose.parts import identity
from parallel_sgd.codec.pipeline import LinearCode, Stage
from tests.contract.kinds import public_kinds
from tests.parallel_sgd.pipeline.test_gradient import STAGES as GRADIENT
from tests.parallel_sgd.pipeline.test_memory import MEMORIES
from tests.parallel_sgd.pipeline.test_quantize import ROWS as QUANTIZERS
from tests.parallel_sgd.pipeline.test_sparsify import ROWS as SPARSIFIERS

#: Those that take arguments.
MADE: list[object] = [
    *(make() for make in (*GRADIENT.values(), *MEMORIES.values())),
    *(row.make() for row in (*QUANTIZERS, *SPARSIFIERS.values())),
    compose.Warmup(3),
    compose.Prox(0.1),
    compose.ServerOpt(ADAMOptimizer(0.1)),
]
BASES = (Stage, LinearCode, MergeRule, Trigger, LocalRule, ExchangePattern)
KINDS = sorted(
    {
        kind
        for base in BASES
        for kind in public_kinds(base, parallel_sgd.codec)
        if kind.__name__ not in ("Memory", "RuleStage", "StageCode")  # bases, and what wraps a stage
    },
    key=lambda kind: kind.__name__,
)


def test_every_stage_has_a_row() -> None:
    """In the table of its likes, which says what holds for all of them."""
    stages = {kind for kind in KINDS if issubclass(kind, Stage)} - {pipeline.Chain}
    assert stages == {type(made) for made in MADE if isinstance(made, Stage)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_part_keeps_its_arguments_under_their_names(kind: type) -> None:
    part = next((made for made in MADE if type(made) is kind), None) or kind()
    assert signature(kind).parameters.keys() <= vars(part).keys()


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
