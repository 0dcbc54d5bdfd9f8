"""A job that is continued from a checkpoint has the bits of one that was never interrupted, for whatever keeps a state."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import nn
from nn.gradient_descent import MomentumOptimizer, SGDOptimizer
from nn.optimizer import (
    DoubleBufferingOptimizer,
    FederatedOptimizer,
    GradientAveragingOptimizer,
    LocalUpdateOptimizer,
    ParameterAveragingOptimizer,
    ShardedPSGDOptimizer,
)
from parallel_sgd import Parameter_Server, codec
from parallel_sgd.batch_sync import AsynchronizedSGD, StaleSynchronous
from parallel_sgd.checkpoint import Store
from parallel_sgd.engine.progress import Position
from parallel_sgd.profiles import FixedBlockAssignment
from tests.parallel_sgd.checkpoint.states import BATCHES, bits, kept, newest, positions, run, throw_back
from tests.processes.training.jobs import rows

from ...statements import covers

SGD: dict[str, Any] = {"gd_type": SGDOptimizer, "gd_params": (0.05,)}
MOMENTUM: dict[str, Any] = {"gd_type": MomentumOptimizer, "gd_params": (0.05,)}
SERVED: dict[str, Any] = {"ps": True, "op_type": GradientAveragingOptimizer, "codec": codec.AsyncPS}


class Thrice(FederatedOptimizer):
    local_batches = 3


AVERAGED: dict[str, Any] = {"op_type": ParameterAveragingOptimizer}
LOCALLY: dict[str, Any] = {**AVERAGED, "codec_extra_parameters": {"local_batches": 5}}
LAMB: dict[str, Any] = {"gd_type": nn.gradient_descent.LAMBOptimizer, "gd_params": (nn.gradient_descent.Cosine(0.01, 40),)}
THREE: dict[str, Any] = {"workers": 3, "block_size": 40}
GRADIENTS: dict[str, Any] = {"op_type": GradientAveragingOptimizer}
CASES: dict[str, dict[str, Any]] = {
    "plain, adam": {},
    "plain, momentum": MOMENTUM,
    "lamb with a schedule": LAMB,
    "three workers": THREE,
    "redundant": {"redundancy": 2},
    "a tail that blocks share unevenly": {"assignment_type": FixedBlockAssignment.of(blocks=7), "block_size": 20},
    "a tail of 4 samples for 11 blocks": {"assignment_type": FixedBlockAssignment.of(blocks=11), "block_size": 17},
    "server": {"ps": True},
    "top-k with error feedback": {"codec": codec.TopK, **SGD},
    "deep gradient compression": {"codec": codec.DGC, **SGD},
    "powersgd": {"codec": codec.PowerSGD, **SGD},
    "terngrad": {"codec": codec.TernGrad},
    "error feedback at the server": {"codec": codec.OneBit, **SGD},
    "a server with adam": {"ps": True, "codec": codec.ServerAdam, **GRADIENTS},
    "lazy uploads": {"ps": True, "codec": codec.LAQ, **SGD},
    "local updates": {"op_type": LocalUpdateOptimizer, **MOMENTUM},
    "double buffering": {"op_type": DoubleBufferingOptimizer},
    "sharded": {"op_type": ShardedPSGDOptimizer},
    "parameter averaging": AVERAGED,
    "federated optimizer": {"op_type": Thrice},
    "fedavg": {"ps": True, "codec": codec.FedAvg, **LOCALLY},
    "diloco": {"codec": codec.DiLoCo, **LOCALLY},
    "1-bit adam": {"codec": codec.OneBitAdam, "codec_extra_parameters": {"warmup": 9}, **GRADIENTS},
    "scaffold": {"ps": True, "codec": codec.SCAFFOLD, **LOCALLY, **SGD},
    "choco": {"codec": codec.CHOCO, **AVERAGED, **THREE},
    "gossip": {"codec": codec.DPSGD, **AVERAGED, **THREE},
    "alone": {"codec": codec.DummyCodec},
    "parameters at the server, in step": {**SERVED, **SGD},
}
#: What these keep is kept by others that `make test` throws back, too.
LIKE_OTHERS = {
    *("plain, momentum", "a tail of 4 samples for 11 blocks", "terngrad", "error feedback at the server"),
    *("federated optimizer", "diloco", "gossip", "deep gradient compression"),
}


@covers("FD-8", "FD-10", "SUB-45")
@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.long if case in LIKE_OTHERS else ()) for case in CASES])
@pytest.mark.share(12)
def test_continued_is_never_stopped(tmp_path: Path, case: str) -> None:
    """Thrown back into the middle of an epoch; the tables too are those of an undisturbed run, each row once."""
    settings = {**CASES[case], "epoch": 2}
    whole = run(tmp_path / "calm", **settings)
    saved = run(tmp_path / "saved", checkpoint_every=6, **settings)
    assert bits(saved) == bits(whole) and saved == whole  # saving changes nothing
    nodes = list(saved.models)
    assert Position(0, 0) < throw_back(tmp_path / "saved", nodes) < Position(2, 0)
    continued = run(tmp_path / "saved", resume=tmp_path / "saved", **settings)
    assert bits(continued) == bits(whole)
    assert continued == whole
    for node in nodes:
        for kind in ("TR", "EV"):
            assert rows(tmp_path / "saved", kind, node) == rows(tmp_path / "calm", kind, node)
        assert len(rows(tmp_path / "saved", "TI", node)) == 3


@pytest.mark.parametrize("case", ["plain, adam", "sharded", "top-k with error feedback", "double buffering", "server"])
@pytest.mark.long
def test_more_epochs_than_were_asked_for_first(tmp_path: Path, case: str) -> None:
    """`resume` continues an ended job by its id; `epoch` is the total."""
    settings = CASES[case]
    whole = run(tmp_path / "calm", **settings)
    first = run(tmp_path, epoch=1, checkpoint_every="epoch", **settings)
    assert positions(tmp_path, 0) == [Position(1, 0)]
    continued = run(tmp_path, resume=first.job_id, **settings)
    assert bits(continued) == bits(whole) and continued == whole
    nothing_left = run(tmp_path, epoch=1, resume=first.job_id, **settings)
    assert nothing_left == first and bits(nothing_left) == bits(first)


@pytest.mark.share(2)
@pytest.mark.parametrize("sync_type", [AsynchronizedSGD, StaleSynchronous(2)])
def test_asynchronous_types_go_on(tmp_path: Path, sync_type: Any) -> None:
    """Their bits depend on who comes first; but the server goes on from its own parameters and rule, and counts on."""
    settings = {**SERVED, "sync_type": sync_type, "gd_type": MomentumOptimizer, "gd_params": (0.02,)}
    saved = run(tmp_path, checkpoint_every="epoch", **settings)
    position = throw_back(tmp_path, [0, 1, Parameter_Server])
    store = Store(kept(tmp_path, Parameter_Server))
    snapshot = store.load(position)
    applied = int(snapshot.numbers["codec/0.applied"])  # type: ignore[arg-type]
    assert applied >= 2 * position.epoch * BATCHES > 0
    continued = run(tmp_path, resume=saved.job_id, checkpoint_every="epoch", **settings)
    again = store.load(Position(3, 0))
    counted = again.numbers["codec/0.rule.step"], again.numbers["codec/0.applied"]
    assert counted == (applied + 2 * (3 - position.epoch) * BATCHES,) * 2
    assert continued["Loss"] < 1.3
    assert len(rows(tmp_path, "EV", 0)) == 4


def test_other_numbers_of_workers_share_a_checkpoint(tmp_path: Path) -> None:
    """With a fixed number of blocks a job may go on with more or fewer workers; a personal state says that it cannot."""
    four_blocks: dict[str, Any] = {"assignment_type": FixedBlockAssignment.of(blocks=4), "block_size": 32}
    whole = run(tmp_path / "calm", workers=1, **four_blocks)
    first = run(tmp_path, workers=2, epoch=2, checkpoint_every="epoch", **four_blocks)
    assert bits(run(tmp_path, workers=4, resume=first.job_id, **four_blocks))[3] == bits(whole)[0]


def test_what_is_personal_and_lacking_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The file of one worker where each had a state of its own: all go on from its values, the log says what is lost."""
    caplog.set_level("INFO")
    settings = CASES["top-k with error feedback"]
    first = run(tmp_path, epoch=2, checkpoint_every="epoch", **settings)
    shutil.rmtree(kept(tmp_path, 0))
    continued = run(tmp_path, resume=first.job_id, **settings)
    assert "the state of node(s) 0 is lacking" in caplog.text and "begins anew" in caplog.text
    assert continued["Loss"] < first["Loss"]
    assert len({bits(continued)[node][0] for node in (0, 1)}) == 1


def test_every_case_reached_its_state(tmp_path: Path) -> None:
    """What the cases above are for is in the files: residuals, slots, moments at the server, shards brought together."""

    def names(case: str, node: int = 0, **further: Any) -> Mapping[str, Any]:
        folder = tmp_path / case
        run(folder, epoch=1, checkpoint_every="epoch", **{**CASES[case], **further})
        snapshot = newest(kept(folder, node))
        return {**snapshot.arrays, **snapshot.numbers}

    assert any("residual" in name for name in names("top-k with error feedback"))
    assert any("step" in name and name.startswith("codec/") for name in names("a server with adam", Parameter_Server))
    assert any(name.startswith("optimizer/pending:") for name in names("double buffering"))
    sharded, plain = names("sharded"), names("plain, adam")
    assert sharded["optimizer/rule:square"].tobytes() == plain["optimizer/rule:square"].tobytes()
    assert {name for name in plain if "batchnorm" in name.casefold() or "batch_norm" in name} != set()
