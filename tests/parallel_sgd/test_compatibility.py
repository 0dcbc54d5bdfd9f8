"""Parts of a job that do not go together: refused before anything is sent, naming both and what to take instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import (
    DoubleBufferingOptimizer,
    FederatedOptimizer,
    GAOptimizer,
    GradientAveragingOptimizer,
    IOptimizer,
    LocalUpdateOptimizer,
    ParameterAveragingOptimizer,
    PSGDOptimizer,
)
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.batch_sync import StaleSynchronous
from parallel_sgd.codec import REQUIRED, Codec, DummyCodec, GlobalSettings, MissingParameter, Plain, SyncPS, TopK
from parallel_sgd.codec.async_ps import AsyncPS
from parallel_sgd.codec.compose import CodecWarning
from parallel_sgd.compatibility import check_copies, check_meaning
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from tests.parallel_sgd.networks import mlp


class Silent(Codec):
    """A codec as users write them: it declares nothing."""

    def update_blocks(self, block_weight: object) -> None:
        pass

    def receive_blocks(self, content: object) -> None:
        pass


class Updating(Silent):
    """Takes updates, whatever they are turned into."""

    takes = "updates"
    gives = "parameters"


class Needy(Silent):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        GlobalSettings.get_params("rate", REQUIRED)


class Choosy(Silent):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        if GlobalSettings.get_params("rate") > 1:
            raise ValueError(f"Choosy 'rate' must be at most 1, got {GlobalSettings.get_params('rate')}")


class Elsewhere(Plain):
    """Works only where there is a certain file."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        if GlobalSettings.current().seed == 99:
            raise FileNotFoundError("no table of codes here")


def submit(tmp_path: Path, workers: int = 2, ps: bool = False, **settings: Any) -> dict[str, float]:
    settings = {"block_size": 256, "epoch": 1, **settings}
    with in_process(workers, ps=ps) as nodes:
        return ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
            nodes, directory=tmp_path / "out", **settings
        )


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"op_type": GradientAveragingOptimizer},
        "'codec' Plain gives back gradients, but 'op_type' GradientAveragingOptimizer takes results for parameters: use "
        "op_type=DoubleBufferingOptimizer or .*PSGDOptimizer",
    ),
    (
        {"codec": AsyncPS, "ps": True},
        "'codec' AsyncPS gives back parameters, but 'op_type' PSGDOptimizer takes results for gradients: "
        "use op_type=GradientAveragingOptimizer",
    ),
    (
        {"codec": AsyncPS, "ps": True, "op_type": FederatedOptimizer},
        "'codec' AsyncPS takes gradients, but 'op_type' FederatedOptimizer puts parameters: "
        "use op_type=GradientAveragingOptimizer",
    ),
    ({"codec": {3: Updating}}, "'codec' Updating takes updates, but .* PSGDOptimizer puts gradients: no optimizer that ships"),
    ({"codec": SyncPS}, r"'codec' SyncPS needs a parameter server among the nodes: parse_worker\(n, ps=True\)"),
    ({"codec": Plain, "sync_type": StaleSynchronous(2)}, r"'sync_type' StaleSynchronous\(2\) cannot run 'codec' Plain, "),
    (
        {"op_type": LocalUpdateOptimizer, "redundancy": 2, "workers": 3},
        "'op_type' LocalUpdateOptimizer puts what depends on all blocks of a worker, so workers that share a block must share "
        r"all of them, but 'assignment_type' IIDBlockAssignment deals block 0 to node 0 with blocks \[0, 1\] and to node 1 "
        r"with blocks \[0, 2\]: use DuplicateAssignment, redundancy=1, or op_type=PSGDOptimizer",
    ),
    ({"codec": Choosy, "codec_extra_parameters": {"rate": 2}}, "Choosy 'rate' must be at most 1, got 2"),
    ({"codec": {0: Choosy}, "codec_extra_parameters": {"rate": "fast"}}, "'>' not supported between"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[text[:50] for _, text in REFUSED])
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        submit(tmp_path, **settings)
    assert not (tmp_path / "out").exists()


def test_a_codec_that_does_not_suit_the_rule_is_a_warning(tmp_path: Path) -> None:
    """codecs.md: momentum after a merge of what error feedback sends late."""
    words = r"TopK .* ADAMOptimizer with beta1=0\.9 .*: use op_type=LocalUpdateOptimizer"
    with pytest.warns(CodecWarning, match=words) as caught:
        submit(tmp_path, codec={"dense_1": TopK, "dense_2": TopK})
    assert [warning.filename for warning in caught] == [__file__], "once, at the caller of parallel()"
    submit(tmp_path, codec=TopK, gd_type=SGDOptimizer)
    submit(tmp_path, codec=TopK, op_type=LocalUpdateOptimizer)


def test_a_missing_parameter_names_the_codec(tmp_path: Path) -> None:
    """conventions.md: only `default=REQUIRED` raises; here before anything is sent, for either side."""
    for settings in ({"codec": {1: Needy}}, {"ps": True, "ps_codec": Needy}):
        with pytest.raises(MissingParameter, match=r"Needy needs the parameter 'rate': pass codec_extra_parameters=\{'rate':"):
            submit(tmp_path, **settings)
    assert not (tmp_path / "out").exists()


def test_what_depends_on_the_place_is_left_to_the_workers(tmp_path: Path) -> None:
    assert submit(tmp_path, codec=Elsewhere)["Loss"] > 0
    with pytest.raises(FileNotFoundError, match="no table"):
        submit(tmp_path, codec=Elsewhere, seed=99)
    assert (tmp_path / "out").exists(), "the job had begun"


ADMITTED = [
    (PSGDOptimizer, Plain),
    (PSGDOptimizer, DummyCodec),
    (GAOptimizer, SyncPS),
    (GAOptimizer, TopK),
    (DoubleBufferingOptimizer, SyncPS),
    (LocalUpdateOptimizer, Plain),
    (ParameterAveragingOptimizer, SyncPS),
    (GradientAveragingOptimizer, AsyncPS),
    (GradientAveragingOptimizer, Silent),
]


@pytest.mark.parametrize(("op_type", "codec"), ADMITTED)
def test_what_can_work_is_not(op_type: type[IOptimizer], codec: type[Codec]) -> None:
    check_meaning(op_type, codec)


@pytest.mark.parametrize(
    "assignment",
    [IIDBlockAssignment(3), DuplicateAssignment(4, 2), FixedBlockAssignment(4, 2, 4)],
    ids=lambda found: type(found).__name__,
)
def test_groups_that_share_all_their_blocks_may_put_what_they_like(assignment: ISetting) -> None:
    check_copies(LocalUpdateOptimizer, assignment, [Plain], has_buffers=True)


def test_copies_matter_only_where_the_first_one_counts() -> None:
    check_copies(LocalUpdateOptimizer, IIDBlockAssignment(3, 2), [DummyCodec], has_buffers=False)
    check_copies(PSGDOptimizer, IIDBlockAssignment(3, 2), [Plain], has_buffers=True)
    with pytest.raises(ValueError, match="ParameterAveragingOptimizer puts what depends on all blocks"):
        check_copies(ParameterAveragingOptimizer, IIDBlockAssignment(3, 2), [DummyCodec], has_buffers=True)


def test_trying_the_codecs_leaves_no_trace(tmp_path: Path) -> None:
    submit(tmp_path)
    with pytest.raises(LookupError, match="GlobalSettings is empty outside a job"):
        GlobalSettings.get_default()
    model = mlp()
    before = model.store.values.copy()
    with in_process(2) as nodes:
        ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(nodes, epoch=1, directory=tmp_path)
    assert np.array_equal(model.store.values, before)
