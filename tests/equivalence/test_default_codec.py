"""The codec that a job takes which names none: by a fixed table, with the bits of `Plain`, in the log and in the manifest."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network import NodeAssignment
from nn.dataset.transforms import ImageCls
from nn.model import Model, SequentialModel
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import Codec, GlobalSettings, Plain, Ring
from parallel_sgd.driver.make_manifest import job_resources
from parallel_sgd.engine.job_executor import TRANSFER
from parallel_sgd.options.job_options import JobOptions
from parallel_sgd.options.make_spec import exact_default, make_spec
from parallel_sgd.options.spec import JobSpec
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from rpc.support.logs import SUBMIT_LOGGER

from ..statements import covers

MOST = 8  # workers of one host that send everything to each other, where parameters are small
MIB = 1 << 20


def model() -> Model:
    """A kernel that is cut into shards, small variables that are not, and buffers."""
    made = SequentialModel(input_shape=[-1, 64], seed=1)
    made.add(nn.layer.Dense(48, activation=nn.activation.Tanh()))
    made.add(nn.layer.BatchNorm())
    made.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


def spec_of(workers: int, ps: bool = False, **options: Any) -> JobSpec:
    with in_process(workers, ps=ps) as nodes:
        return make_spec(model(), nn.dataset.Digits(), ImageCls(), JobOptions(nodes, **options))


@pytest.mark.parametrize(
    ("workers", "size", "hosts", "codec"),
    [
        (MOST, MIB // 4 - 1, 1, "Plain"),
        (MOST + 1, 4, 1, "Ring"),
        (6, 1000 * MIB, 1, "Plain"),
        (7, MIB // 4, 1, "Ring"),
        (8, MIB // 4 - 1, 2, "Plain"),
        (9, MIB // 4 - 1, 2, "Ring"),
        (4, MIB // 4, 4, "Plain"),
        (5, MIB // 4, 2, "Ring"),
        (2, 4 * MIB, 2, "Plain"),
        (3, 4 * MIB, 3, "Ring"),
        (1, 1000 * MIB, 1, "Plain"),
    ],
)
def test_the_table(workers: int, size: int, hosts: int, codec: str) -> None:
    chosen = exact_default(workers, size, hosts)
    assert chosen.codec.__name__ == codec
    assert bool(chosen.said) is (codec != "Plain")


@pytest.mark.parametrize(("hosts", "shards"), [(1, 2), (2, 16)])
def test_shards_are_large_where_workers_share_processors(hosts: int, shards: int) -> None:
    """A packet costs processors about as much as the bytes of 64 Ki numbers do; between hosts small shards spread them."""
    assignment = IIDBlockAssignment(16)
    kind: Any = exact_default(16, 512 << 10, hosts).codec
    with GlobalSettings.use(assignment):
        assert len(kind.composition.exchange.shards(128 << 10, assignment, 0)) == shards


def test_it_goes_by_the_addresses_of_the_workers() -> None:
    large = SequentialModel(input_shape=[-1, 64], seed=1)
    large.add(nn.layer.Dense(2000))
    large.setup(nn.loss.MSELoss())
    nodes = NodeAssignment()
    for node in range(5):
        nodes.add(node, f"10.0.0.{1 + node}")
    names = ("127.0.0.1", "localhost", "::1", "127.0.0.2", "localhost")
    here = NodeAssignment()
    for node, host in enumerate(names):
        here.add(node, host)
    assert make_spec(large, nn.dataset.Digits(), ImageCls(), JobOptions(here)).plan.default_codec is Plain  # of one host
    spec = make_spec(large, nn.dataset.Digits(), ImageCls(), JobOptions(nodes))
    assert spec.plan.default_codec is Ring
    assert "there are 5 workers. On 5 hosts, with 520000 bytes of parameters, Plain is taken for up to 4" in spec.remark
    assert spec.remark.endswith("To have Plain, write codec=Plain (--codec plain).")


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({}, "Ring"),
        ({"codec": {0: Ring}}, "Ring"),
        ({"codec": Plain}, "Plain"),
        ({"ps": True}, "SyncPS"),
        ({"assignment_type": DuplicateAssignment, "redundancy": 2}, "Plain"),
        ({"op_type": nn.optimizer.ShardedPSGDOptimizer}, "Plain"),
    ],
)
def test_what_else_decides(options: dict[str, Any], codec: str) -> None:
    """Where others hold the same blocks only Plain takes the first copy; what is asked for is taken as it is."""
    spec = spec_of(MOST + 2, **options)
    assert spec.plan.default_codec.__name__ == codec
    assert bool(spec.remark) is (codec == "Ring")


def test_a_refusal_names_what_everybody_knows() -> None:
    with pytest.raises(ValueError, match="AsynchronizedSGD cannot run 'codec' Plain"):
        spec_of(MOST + 1, sync_type=AsynchronizedSGD)


def test_the_manifest_names_it() -> None:
    assert job_resources(spec_of(MOST), 0)[TRANSFER]["codec"] == "Plain"
    assert job_resources(spec_of(MOST + 1), 0)[TRANSFER]["codec"] == "Ring"
    mixed = spec_of(MOST + 1, codec={"dense_1": Plain})
    assert job_resources(mixed, 0)[TRANSFER]["codec"] == "{0: 'Plain', 1: 'Plain', 'rest': 'Ring'}"


@pytest.mark.share(2)
@pytest.mark.parametrize("blocks", [MOST + 1, 2 * MOST + 3])
def test_the_bits_are_those_of_plain_with_fewer_packets(blocks: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the first number of workers at which it changes, also with several blocks for some of them, and with buffers."""

    def run(codec: type[Codec] | None) -> JobResult:
        with in_process(MOST + 1) as nodes:
            return ParallelSGD(model(), nn.dataset.Digits(), ImageCls()).parallel(
                nodes,
                codec=codec,
                epoch=1,
                block_size=1500 // blocks // 5,
                assignment_type=FixedBlockAssignment.of(blocks=blocks),
                directory=tmp_path,
            )

    with caplog.at_level(logging.INFO, SUBMIT_LOGGER):
        default = run(None)
        said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Codec: ")]
        plain = run(Plain)
    assert len(said) == 1
    assert said[0].startswith("Codec: Ring, because none was named and there are 9 workers. On one host")
    bits = [{(m.store.values.tobytes(), m.store.buffer_values.tobytes()) for m in r.models.values()} for r in (default, plain)]
    assert bits[0] == bits[1]
    assert len(bits[0]) == 1
    assert default == plain
    packets = [sum(entry.packets for rows in r.accounts.values() for entry in rows) for r in (default, plain)]
    assert packets[0] < packets[1] / 2
    assert np.isfinite(list(default.values())).all()


@pytest.mark.long
@covers("SUB-45")
@pytest.mark.parametrize(("before", "after"), [(MOST + 1, 2), (2, MOST + 1)])
def test_a_job_goes_on_where_another_codec_is_the_default(before: int, after: int, tmp_path: Path) -> None:
    """What Ring has counted is nothing to Plain, and Ring needs nothing of Plain."""

    def run(workers: int, folder: Path, **options: Any) -> set[bytes]:
        job = ParallelSGD(model(), nn.dataset.Digits(), ImageCls())
        blocks = FixedBlockAssignment.of(blocks=MOST + 2)
        with in_process(workers) as nodes:
            result = job.parallel(nodes, block_size=20, assignment_type=blocks, directory=folder, checkpoint_every=1, **options)
        return {trained.store.values.tobytes() for trained in result.models.values()}

    run(before, tmp_path / "resumed", epoch=1)
    resumed = run(after, tmp_path / "resumed", epoch=2, resume="last")
    assert resumed == run(after, tmp_path / "calm", epoch=2) and len(resumed) == 1
