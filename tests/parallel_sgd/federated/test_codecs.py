"""Codecs with clients: each that ships has equal bits on any number of workers, or is refused with its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from parallel_sgd import Clients, ParallelSGD, in_process
from parallel_sgd import codec as codecs
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, netEncapsulation
from parallel_sgd.codec.compose import AllToAll, Krum, Mean, ShardedPS, WeightedMean
from parallel_sgd.codec.compose.merge import MergeRule, Round
from parallel_sgd.codec.pipeline import DiffRef, Int8, TopK
from parallel_sgd.codec.pipeline.stage import Draw
from parallel_sgd.federated import PoissonSampler
from parallel_sgd.federated.codecs import check_codec
from parallel_sgd.profiles import FixedBlockAssignment
from tests.parallel_sgd.federated.reference import arrays, model
from tests.parallel_sgd.federated.test_clients import OPTIONS, clients, trained

AS_THEY_ARE = ("FirstCopy", "Plain", "Ring", "ShardedPS", "SyncPS", "Tree")
BY_CLIENT = (
    *("Adasum", "BF16", "FP16", "FirstCopyInt8", "Int8", "Krum", "LevelQuantizer", "Median", "Natural", "QSGD"),
    *("ShardedLevels", "SignSGD", "SignSGDPS", "TernGrad", "TrimmedMean"),
    # these remember something of each client
    *("DGC", "EFSign", "OneBit", "Signum", "TopK", "TopKInt8"),
)
NO_MEAN = "does not give all workers one mean of the changes of a round, .*: take Plain, Ring"
REFUSED = {
    **dict.fromkeys(("ADPSGD", "AsyncPS", "CHOCO", "DCASGD", "DPSGD", "DummyCodec", "GradCodePeers"), NO_MEAN),
    **dict.fromkeys(("OneBitAdam", "RandomPair", "SMA"), NO_MEAN),
    "DiLoCo": r"it is Clients\(server=NesterovOptimizer",
    "DiLoCoPS": r"it is Clients\(server=NesterovOptimizer",
    "EFSignBothWays": "remembers on the way back .*: leave 'down' out",
    "FedAdam": r"it is Clients\(server=ADAMOptimizer",
    "FedAvg": "it is the default of Clients",
    "FedProx": r"it is Clients\(prox=",
    "GradCode": "puts the blocks of a worker together .*: take Plain",
    "LAQ": r"exchanges when Lazy.*: take trigger=Every\(1\)",
    "LocalSGD": r"it is Clients\(epochs=",
    "PowerSGD": "adds up encodings on their way .*: take TopK or QSGD",
    "RandomK": r"adds up encodings on their way .*: take Codec.of\(AllToAll\(\), up=RandomK",
    "SCAFFOLD": r"it is Clients\(control_variates=True",
    "ServerAdam": r"it is Clients\(server=ADAMOptimizer",
    "ShardedTopK": "remembers on the way back .*: leave 'down' out",
}


def kind(name: str) -> type[Codec]:
    found: type[Codec] = getattr(codecs, name)
    return found


def test_each_codec_that_ships_goes_with_clients_or_is_refused_with_its_remedy() -> None:
    assert sorted([*AS_THEY_ARE, *BY_CLIENT, *REFUSED]) == sorted(codecs.SHIPPED)
    given, assignment = clients(), FixedBlockAssignment(2, 1, 6)
    for name in (*AS_THEY_ARE, *BY_CLIENT):
        check_codec(kind(name), given, assignment, {})
    for name, words in REFUSED.items():
        with pytest.raises(ValueError, match=f"^'codec' {name} .*{words}"):
            check_codec(kind(name), given, assignment, {})


@pytest.mark.long
@pytest.mark.parametrize("name", BY_CLIENT)
def test_a_codec_has_equal_bits_on_any_number_of_workers(name: str, tmp_path: Path) -> None:
    options = {"codec": kind(name), "ps": kind(name).traits.needs_server, "epoch": 2, "dtype": "float32"}
    found = [trained(clients(), workers, tmp_path, **options).tobytes() for workers in (1, 2, 3)]
    assert found == found[:1] * 3
    exact = trained(clients(), 1, tmp_path, epoch=2, dtype="float32").tobytes()
    assert found[0] != exact


# cut into as many shards as there are slots, each owned by the worker of a slot
CUT = Codec.of(ShardedPS(smallest=64), up=Int8(16), down=Int8(32), name="Cut")
MIXED: list[tuple[Clients, dict[str, Any]]] = [
    (clients(rounds=2), {"codec": {0: CUT, 1: kind("QSGD"), 2: kind("TernGrad")}}),
    (clients(rounds=2), {"codec": kind("Krum"), "redundancy": 2}),
    # rounds with fewer clients than slots, and one of none
    (Clients(20, PoissonSampler(0.02), rounds=8), {"codec": kind("Natural")}),
    (clients(rounds=2), {"codec": kind("SignSGDPS"), "ps": True}),
]


@pytest.mark.long
@pytest.mark.parametrize(("given", "options"), MIXED)
def test_codecs_of_variables_shards_and_the_whole_model_have_equal_bits(
    given: Clients, options: dict[str, Any], tmp_path: Path
) -> None:
    more = {**options, "dtype": "float32", "epoch": 1}
    several = trained(given, 4, tmp_path, **more)
    more.pop("redundancy", None)
    assert trained(given, 1, tmp_path, **more).tobytes() == several.tobytes()


class Sampled(MergeRule):
    """Mean by hand, with the weights that a merge rule is told, of the contributors that it is told."""

    def combine(self, parts: Any, weights: Any, round_: Round | None = None) -> Any:
        assert round_ is not None and len(set(round_.nodes)) == len(parts)
        shares = np.array(weights) / sum(weights)
        # a worker would be below 3, so clients are told
        assert max(round_.nodes) >= 3
        return sum(share * part for share, part in zip(shares, parts, strict=True)).astype(parts[0].dtype)


def test_changes_are_weighed_by_samples_where_they_are_merged(tmp_path: Path) -> None:
    exact = trained(clients(rounds=3), 1, tmp_path, epoch=1)
    start = model().store.values
    found = trained(clients(rounds=3), 3, tmp_path, epoch=1, codec=Codec.of(AllToAll(), merge=Sampled(), name="Weighed"))
    assert np.abs(found - exact).max() < 1e-12 * np.abs(exact - start).max()


def test_the_bytes_of_a_client_are_those_of_its_packets(tmp_path: Path) -> None:
    store = model("float32").store
    packed = {0: kind("SignSGD")}
    for codec, up in ((packed, store.values.nbytes - store.variables[0].value.nbytes * 31 // 32), (kind("Median"), 3640)):
        with in_process(2) as nodes:
            result = ParallelSGD(model("float32"), nn.dataset.ArrayDataset(*arrays())).parallel(
                nodes, clients=clients(rounds=2), directory=tmp_path, codec=codec, **{**OPTIONS, "epoch": 1}
            )
        rows = result.history.clients
        assert {(row["bytes_up"], row["bytes_down"]) for row in rows} == {(up, 3640)}


class Half(Codec):
    """A class of a program, without declarations: float16, by block."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.parts: dict[int, Any] = {}

    def update_blocks(self, block_weight: BlockWeight) -> list[netEncapsulation]:
        packed = block_weight.content.astype(np.float16)
        self.receive_blocks((block_weight.block_id, {"change": packed}))
        others = GlobalSettings.get_default().get_adversary(block_weight.block_id)
        # the same to each in a packet of its own: a client sends it once
        content = (block_weight.block_id, {"change": packed})
        return [netEncapsulation(other, content) for other in others]

    def receive_blocks(self, content: Any) -> None:
        block, packed = content
        self.parts[block] = packed["change"]
        if len(self.parts) == GlobalSettings.get_default().block_count:
            parts = [self.parts[each] for each in sorted(self.parts)]
            self.set_result(np.mean(parts, axis=0, dtype=np.float32))
            self.parts = {}


class InTurn(Half):
    """A class that gives packets one by one, and spoils what it gave when the next one is asked for."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        for packet in super().update_blocks(block_weight):
            block, packed = packet.content
            content = (block, {"change": packed["change"].copy()})
            yield netEncapsulation(packet.targets, content)
            content[1]["change"].fill(np.nan)


@pytest.mark.parametrize(("kind", "workers", "up"), [(Half, 1, 3640), (Half, 2, 1820), (Half, 3, 1820), (InTurn, 2, 1820)])
def test_the_bytes_of_a_client_with_a_codec_of_ones_own(kind: type[Half], workers: int, up: int, tmp_path: Path) -> None:
    """Those of what it returns; alone, with nobody to send to, it returns nothing, and the change counts as it is."""
    with in_process(workers) as nodes:
        result = ParallelSGD(model("float32"), nn.dataset.ArrayDataset(*arrays())).parallel(
            nodes, clients=clients(rounds=2), directory=tmp_path, codec=kind, **{**OPTIONS, "epoch": 1}
        )
    assert {row["bytes_up"] for row in result.history.clients} == {up}


OTHERS: list[tuple[type[Codec], dict[str, Any], str]] = [
    (Codec.of(AllToAll(), merge=WeightedMean([1, 2]), name="Own"), {}, "weighs by worker .*: leave 'weights' out"),
    (
        Codec.of(AllToAll(), up=DiffRef(TopK(0.5)), name="EF21"),
        {},
        r"has receivers remember each sender .*: take ErrorFeedback",
    ),
    (
        kind("QSGD"),
        {"weigh": "steps"},
        "encodes client by client, and Clients 'weigh' \"steps\" .*: take weigh='samples' or 'equal'",
    ),
]


@pytest.mark.parametrize(("codec", "changes", "words"), OTHERS, ids=[each[0].__name__ for each in OTHERS])
def test_a_part_that_goes_by_worker_is_refused(codec: type[Codec], changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^'codec' {codec.__name__} {words}"):
        check_codec(codec, clients(**changes), FixedBlockAssignment(2, 1, 6), {})


def test_a_round_with_fewer_clients_than_a_merge_rule_needs_is_refused_before_the_job(tmp_path: Path) -> None:
    given = Clients(20, PoissonSampler(0.3), rounds=10)
    with pytest.raises(ValueError, match=r"^'codec' Krum needs 5 clients in each round, and round \d+ has [1-4]: let 'sample'"):
        trained(given, 2, tmp_path / "never", codec=Codec.of(AllToAll(), merge=Krum(1), name="Krum"), epoch=2)
    assert not (tmp_path / "never").exists()


def test_random_numbers_of_a_stage_go_by_client_and_round_alone(tmp_path: Path) -> None:
    seen: dict[int, set[tuple[int, int, int]]] = {}

    class Noise(Int8):
        """Stage that notes the keys of its draws."""

        def encode(self, x: Any, writer: Any, draw: Draw) -> Any:
            if x.size == model().store.values.size:
                seen[now].add((draw.epoch, draw.batch, draw.node))
            return super().encode(x, writer, draw)

    for now in (1, 3):
        seen[now] = set()
        trained(
            clients(rounds=2),
            now,
            tmp_path,
            epoch=1,
            codec=Codec.of(AllToAll(), up=Noise(64), merge=Mean(), scope="model", name="Noisy"),
        )
    assert seen[1] == seen[3] and len(seen[1]) == 12 and max(node for *_, node in seen[1]) > 6
