"""Memory of clients: common state of all workers, in exchange, checkpoints and recovery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.optimizer import ShardedPSGDOptimizer
from parallel_sgd import Clients, ParallelSGD, in_process, local_workers
from parallel_sgd.checkpoint.snapshot import CLIENT, Snapshot
from parallel_sgd.codec import DGC, QSGD, Codec, OneBit, Signum, TopK
from parallel_sgd.codec.compose import PS, AllToAll
from parallel_sgd.codec.interfaces import BlockWeight
from parallel_sgd.codec.pipeline import ErrorFeedback, Levels, Stage
from parallel_sgd.codec.settings import GlobalSettings
from parallel_sgd.engine.unusable import Unusable
from parallel_sgd.federated import load_client
from parallel_sgd.federated.memory import COMMON, ClientMemory, Memories, pack, read_packed
from parallel_sgd.federated.population import deal
from parallel_sgd.federated.remembering import check_memory
from parallel_sgd.profiles import FixedBlockAssignment
from tests.parallel_sgd.federated.reference import Scheme, arrays, model
from tests.parallel_sgd.federated.test_clients import OPTIONS, clients, job, trained
from tests.statements import covers


class Half(Stage):
    """Stage that sends half of each number, so that error feedback remembers the other half."""

    def side_bytes(self, n: int) -> int:
        return 0

    def carried(self, n: int) -> int:
        return n

    def encode(self, x: Any, writer: Any, draw: Any) -> Any:
        return x / 2

    def parse(self, reader: Any, n: int, draw: Any) -> tuple[Any, int]:
        return None, n

    def decode(self, values: Any, side: Any, n: int) -> Any:
        return values

    def delta(self, n: int) -> float | None:
        return 0.75


def test_error_feedback_of_each_client_equals_plain_numpy(tmp_path: Path) -> None:
    given = clients(count=9)
    rows = deal(given, arrays()[1], OPTIONS["seed"])
    start = model().store.values.copy()
    expected = Scheme(rows, 6, 2, OPTIONS["block_size"], 0.2, OPTIONS["seed"], fed_back=True).run(start, rounds=10)
    halved = Codec.of(AllToAll(), up=ErrorFeedback(Half()), name="Halved")
    found = trained(given, 2, tmp_path, codec=halved, dtype="float32", epoch=2)
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected - start).max()


SOME: dict[int, type[Codec]] = {0: TopK, 1: Signum, 2: DGC, 3: OneBit}


# so few that most are chosen in each round, and recall what they have kept
FEW = clients(count=9, control_variates=True, rounds=3)
LEVELS = Codec.of(PS(), up=ErrorFeedback(Levels(8)), down=Levels(8), name="FedBackLevels")
CASES: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    ({"codec": SOME}, [{"workers": 3}, {"workers": 4, "redundancy": 2}]),
    ({"codec": LEVELS, "ps": True}, [{"workers": 3}]),
    ({"op_type": ShardedPSGDOptimizer}, [{"workers": 3}]),
]


@covers("RES-1")
@pytest.mark.long
@pytest.mark.parametrize(("same", "others"), CASES)
def test_any_number_of_workers_gives_the_same_bits_with_a_memory(
    same: dict[str, Any], others: list[dict[str, Any]], tmp_path: Path
) -> None:
    options = {"dtype": "float32", "epoch": 1, **same}
    one = trained(FEW, 1, tmp_path, **options).tobytes()
    for other in others:
        more = {**options, **other}
        assert trained(FEW, more.pop("workers"), tmp_path, **more).tobytes() == one, other


@covers("RES-1")
def test_a_training_goes_on_with_the_memory_of_all_clients_on_other_workers(tmp_path: Path) -> None:
    options: dict[str, Any] = {"codec": SOME, "dtype": "float32"}
    expected = trained(FEW, 1, tmp_path / "whole", epoch=2, **options)
    trained(FEW, 2, tmp_path, epoch=1, checkpoint_every="epoch", **options)
    files = sorted(tmp_path.rglob("checkpoint-*.safetensors"))
    snapshots = [Snapshot.read(memoryview(path.read_bytes())) for path in files]
    assert snapshots and not any(each.header.personal for each in snapshots)
    newest = max(snapshots, key=lambda each: each.header.position)
    told = {int(name.rpartition("@")[2]) for name in newest.part(CLIENT)}
    # those that have trained, and what they have in common
    assert COMMON in told and 6 < len(told) <= 10
    with pytest.raises(ValueError, match="memory of clients does not suit the job's codecs"):
        trained(FEW, 2, tmp_path, resume="last", epoch=2, codec={0: OneBit, 2: TopK}, dtype="float32")
    assert trained(FEW, 3, tmp_path, resume="last", epoch=2, **options).tobytes() == expected.tobytes()


@covers("RES-1")
@pytest.mark.processes
@pytest.mark.parametrize("policy", ["restart", pytest.param("shrink", marks=pytest.mark.long)])
def test_a_lost_worker_takes_no_memory_of_clients_along(policy: str, tmp_path: Path) -> None:
    given = clients(control_variates=True, rounds=4)
    options = {**OPTIONS, "epoch": 3, "codec": SOME}
    expected = trained(given, 1, tmp_path / "here", epoch=3, codec=SOME)
    with local_workers(2) as nodes:
        result = job().parallel(nodes, clients=given, directory=tmp_path, on_failure=policy, fault="kill 1@e2.b3", **options)
    assert result.restarts == 1 and result.ledger is not None and not result.ledger.problems
    assert {each.store.values.tobytes() for each in result.models.values()} == {expected.tobytes()}


def test_personal_variables_stay_with_each_client_and_equal_plain_numpy(tmp_path: Path) -> None:
    given = clients(personal="dense_2", prox=0.5)
    rows = deal(given, arrays()[1], OPTIONS["seed"])
    start = model().store.values.copy()
    head = 12 * 10 + 10
    scheme = Scheme(rows, 6, 2, OPTIONS["block_size"], 0.2, OPTIONS["seed"], personal=head, mu=0.5)
    expected = scheme.run(start, rounds=10)
    found = trained(given, 1, tmp_path, epoch=2)
    change = np.abs(expected - start).max()
    assert np.abs(found - expected).max() < 1e-12 * change and np.array_equal(found[-head:], start[-head:])
    trained(given, 2, tmp_path, epoch=1, checkpoint_every="epoch")
    assert trained(given, 3, tmp_path, epoch=2, resume="last", checkpoint_every="epoch").tobytes() == found.tobytes()
    newest = max(tmp_path.rglob("checkpoint-*.safetensors"), key=lambda path: path.name)
    made, seen = model(), 0
    for client in range(30):
        seen += load_client(made, newest, client)
        own = np.concatenate([expected[:-head], scheme.own[client]])
        assert np.abs(made.store.values - own).max() < 1e-12 * change
    assert 6 < seen <= 30 and np.ptp(scheme.own, axis=0).max() > 0.01


def test_a_job_with_personal_variables_is_evaluated_by_their_mean_and_counts_no_bytes_of_them(tmp_path: Path) -> None:
    with in_process(2) as nodes:
        options = {**OPTIONS, "epoch": 1, "codec": {2: QSGD}, "checkpoint_every": "epoch"}
        result = job().parallel(nodes, clients=clients(personal="dense_2"), directory=tmp_path, **options)
    assert {(row["bytes_up"], row["bytes_down"]) for row in result.history.clients} == {(8 * (910 - 130),) * 2}
    newest = max(tmp_path.rglob("checkpoint-*.safetensors"), key=lambda path: path.name)
    made = model()
    heads = [made.store.values.copy() for client in range(30) if load_client(made, newest, client)]
    made.store.values[:] = np.mean(heads, axis=0)
    _, _, test_x, test_y = arrays()
    assert np.isclose(result.history.rows[-1]["val_Loss"], made.evaluate(test_x, test_y)["Loss"], rtol=1e-9)
    for personal, words in (
        ("dense_3", "'clients personal' names 'dense_3', but the model"),
        (["dense_1", "dense_2"], "all of"),
    ):
        with pytest.raises(ValueError, match=words), in_process(2) as nodes:
            job().parallel(nodes, clients=clients(personal=personal), directory=tmp_path / "never", **OPTIONS)
    assert not (tmp_path / "never").exists()


def test_hosting_counts_in_no_figure_and_control_variates_do(tmp_path: Path) -> None:
    found = {}
    for control in (False, True):
        with in_process(2) as nodes:
            result = ParallelSGD(model("float32"), nn.dataset.ArrayDataset(*arrays())).parallel(
                nodes,
                clients=clients(control_variates=control, rounds=2),
                directory=tmp_path,
                **{**OPTIONS, "epoch": 1},
            )
        assert ("ClientMemory" in {row["codec"] for row in result.history.traffic}) == control
        row = result.history.clients[0]
        found[control] = (result.history.rows[0]["bytes"], row["bytes_up"], row["bytes_down"])
    size = 3640
    assert found[False][1:] == (size, size) and found[True][1:] == (2 * size, 2 * size)
    assert found[False][0] == found[True][0]


def test_memories_that_several_workers_cannot_hold_are_refused() -> None:
    made = nn.model.SequentialModel([-1, 999], [nn.layer.Dense(5_000)], seed=0)
    made.setup("mse")
    big = made.trainable_variables()
    given, two, one = Clients(30, 6, control_variates=True), FixedBlockAssignment(2, 1, 6), FixedBlockAssignment(1, 1, 6)
    with pytest.raises(ValueError, match=r"a memory of 20,000,000 bytes each, 343 MiB .* may hold 256: take one worker"):
        check_memory(given, [QSGD] * 2, big, two, {}, rounds=3)
    check_memory(given, [QSGD] * 2, big, one, {}, rounds=3)
    check_memory(given, [QSGD] * 2, big, two, {}, rounds=2)
    fed_back = Clients(30, 6)
    with pytest.raises(ValueError, match=r"a memory of 40,000,\d+ bytes each"):
        check_memory(fed_back, [DGC] * 2, big, two, {}, rounds=2)
    check_memory(fed_back, [TopK] * 2, big, two, {}, rounds=2)


def test_a_memory_that_cannot_be_used_is_refused_and_what_is_packed_comes_back() -> None:
    state = {"0.up.0.residual": np.arange(3, dtype=np.float32), "0.up.0.step": 3, "control": np.ones(2)}
    found = read_packed(pack(state))
    assert found.keys() == state.keys() and found["0.up.0.step"] == 3 and found["control"].dtype == np.float64
    assert np.array_equal(found["0.up.0.residual"], state["0.up.0.residual"])
    for packed in (np.zeros(9, np.uint8), pack(state)[:-1], pack({"a": np.array([np.nan])})):
        with pytest.raises(Unusable):
            read_packed(packed)
    with GlobalSettings.use(FixedBlockAssignment(2, 1, 4)) as settings:
        codec = ClientMemory(0)
        settings.sender = 1
        codec.check((2, pack({})), None)
        for content in ((0, pack({})), (2, np.zeros(2, np.float32)), (9, pack({})), (2, pack({}), 0), "no", (2.0, pack({}))):
            with pytest.raises(Unusable):
                codec.check(content, None)


def test_a_worker_asks_for_memories_that_have_not_come() -> None:
    with GlobalSettings.use(FixedBlockAssignment(2, 1, 2)):
        first, second = ClientMemory(0), ClientMemory(1)
        for codec, block in ((first, 0), (second, 1)):
            codec.coming = {"a": np.full(2, float(block))}
            sent = codec.update_blocks(BlockWeight(np.empty(0), block))
            assert sent is not None and sent.targets == (1 - block,)
        # both packets are lost: the first asks, and is answered, the second has what it was asked with
        answers: list[Any] = []
        for packet in list(first.do_something_to_save_yourself() or ()):
            answers += [answer.content for answer in second.receive_blocks(packet.content) or ()]  # type: ignore[arg-type]
        assert second.is_done() and not first.is_done() and list(first.missing_blocks()) == [1]
        for content in answers:
            first.receive_blocks(content)
        assert first.is_done() and first.found.keys() == second.found.keys() == {0, 1}
        assert np.array_equal(first.found[1]["a"], [1.0, 1.0])


def test_memories_come_back_from_a_checkpoint() -> None:
    memories = Memories()
    memories.after({3: {"a": np.ones(2), "b": 2}, 4: {}, COMMON: {"c": np.zeros(1)}})
    again = Memories()
    again.load_state_dict(memories.state_dict())
    assert memories.state_dict().keys() == {"a@3", "b@3", "c@-1"} == again.state_dict().keys()
    assert again.of(3)["b"] == 2 and again.of(4) == {} and again.of(3)["a"] is not memories.of(3)["a"]
