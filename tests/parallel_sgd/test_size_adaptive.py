"""Codecs by variable, layer and size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nn
from parallel_sgd import ParallelSGD, Parameter_Server, in_process
from parallel_sgd.codec import Codec, DummyCodec, Plain, SizeAdaptive, SyncPS
from parallel_sgd.codec.choice import by_size
from tests.parallel_sgd.networks import mlp

from ..statements import covers

NAMES = ["dense_1/kernel", "dense_1/bias", "dense_2/kernel", "dense_2/bias", "dense_10/kernel", "dense_10/bias"]
SIZES = [2048, 32, 1024, 32, 320, 10]


class Large(Plain):
    """For kernels."""


class Small(Plain):
    """For biases."""


def test_small_variables_get_the_small_codec() -> None:
    assert by_size(SizeAdaptive(big=Large, small=Small), NAMES, SIZES) == dict(
        enumerate([Large, Small, Large, Small, Small, Small])
    )
    assert by_size(SizeAdaptive(min=33, big=Large), NAMES, SIZES) == {0: Large, 2: Large, 4: Large}
    assert by_size(SizeAdaptive(min=0, big=Large), NAMES, SIZES) == dict.fromkeys(range(6), Large)


def test_sizes_and_names_go_together() -> None:
    choice = {"dense_1": SizeAdaptive(big=Large, small=Small), "dense_2/kernel": Small, 5: SizeAdaptive(big=Large), 4: Plain}
    assert by_size(choice, NAMES, SIZES) == {0: Large, 1: Small, 2: Small, 4: Plain}
    assert by_size(Plain, NAMES, SIZES) is Plain
    assert by_size(None, NAMES, SIZES) is None


def test_what_is_more_exact_counts() -> None:
    assert by_size({"dense_1/bias": Small, 1: Plain, "dense_1": Large}, NAMES, SIZES) == {0: Large, 1: Plain}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"big": "plain"}, "SizeAdaptive 'big' must be a subclass of Codec, got 'plain'"),
        ({"big": None}, "SizeAdaptive 'big' must be a subclass of Codec, got None"),
        ({"big": Codec}, "SizeAdaptive 'big' must be a subclass of Codec, got <class"),
        ({"big": Plain, "small": 3}, "SizeAdaptive 'small' must be a subclass of Codec, got 3"),
        ({"big": Plain, "min": -1}, "SizeAdaptive 'min' must be .*, got -1"),
        ({"big": Plain, "min": 1.5}, "SizeAdaptive 'min' must be .*, got 1.5"),
    ],
)
def test_nonsense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        SizeAdaptive(**given)


@covers("SUB-33")
@pytest.mark.parametrize("ps", [False, True])
def test_two_codecs_in_one_job(ps: bool, tmp_path: Path) -> None:
    """Per variable, the rest the default codec; the same bits as with one lossless codec for all."""
    models = []
    for codec in (SizeAdaptive(min=1000, big=Large), {"dense_1": Small, "dense_3/bias": Large}, None):
        with in_process(2, ps=ps) as nodes:
            result = ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
                nodes, block_size=128, epoch=1, codec=codec, directory=tmp_path
            )
        rest = "SyncPS" if ps else "Plain"
        kinds = {entry.variable: entry.codec for entry in result.accounts[0]}
        if isinstance(codec, SizeAdaptive):
            assert [kinds[variable] for variable in range(6)] == ["Large", rest, "Large", rest, rest, rest]
        elif codec:
            assert [kinds[variable] for variable in range(6)] == ["Small", "Small", rest, rest, rest, "Large"]
        models.append(result.models[0].store.values.tobytes())
    assert len(set(models)) == 1


def test_the_server_side_may_be_chosen_by_size_too(tmp_path: Path) -> None:
    class Served(SyncPS):
        """A name of its own in the accounts."""

    with in_process(2, ps=True) as nodes:
        result = ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
            nodes, block_size=128, epoch=1, ps_codec=SizeAdaptive(min=2000, big=Served), directory=tmp_path
        )
    kinds = {entry.variable: entry.codec for entry in result.accounts[Parameter_Server]}
    assert [kinds[variable] for variable in range(6)] == ["Served"] + ["SyncPS"] * 5


def test_nobody_exchanges_what_is_left_out(tmp_path: Path) -> None:
    with in_process(2) as nodes:
        result = ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
            nodes, block_size=128, epoch=1, codec=SizeAdaptive(big=Plain, small=DummyCodec), directory=tmp_path
        )
    assert {entry.variable for entry in result.accounts[0]} == {0, 2}
