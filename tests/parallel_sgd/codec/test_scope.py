"""Codecs over the whole gradient: they equal plain NumPy references of their papers, wherever they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from psgd import cli

import numpy as np
import pytest

import nn
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.optimizer import (
    DoubleBufferingOptimizer,
    GradientAveragingOptimizer,
    LocalUpdateOptimizer,
    OpContainer,
    ParameterAveragingOptimizer,
    PSGDOptimizer,
)
from parallel_sgd import ParallelSGD, Parameter_Server, in_process, simulated
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import DGC, REQUIRED, Answering, Codec, GlobalSettings, SizeAdaptive, netEncapsulation
from parallel_sgd.codec import Krum as NamedKrum
from parallel_sgd.codec import TopK as NamedTopK
from parallel_sgd.codec.compose import PS, AllToAll, Bulyan, Every, Gossip, Krum, Mean, ServerOpt, ShardedPS
from parallel_sgd.codec.parameter_server import SyncPS
from parallel_sgd.codec.pipeline import Clip, DGCMemory, DiffRef, ErrorFeedback, GlobalClip, GlobalTopK, Int8, PowerSGD, TopK
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.traits import Traits
from parallel_sgd.engine.batches import FIXED
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.engine.whole_exchange import WholeExchange
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing import check_codec
from tests.parallel_sgd.digits_job import DigitsJob, digits, plan_of
from tests.statements import covers

WORKERS, ROUNDS, SAMPLES, RATE = 7, 6, 20, 0.5
DATA = digits()
Vectors = Sequence[np.ndarray]
SPARSE = ErrorFeedback(GlobalTopK(0.05))


def network(dtype: Any = "float64") -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 64], seed=5, dtype=dtype)
    model.add(nn.layer.Dense(12, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return model


# ---- references


def gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient of the network's mean loss, flat."""
    w1, b1, w2, b2 = (part.reshape(shape) for part, shape in zip(np.split(w, [768, 780, 900]), SHAPES, strict=True))
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    power = np.exp(scores - scores.max(axis=1, keepdims=True))
    wrong = (power / power.sum(axis=1, keepdims=True) - y) / len(x)
    back = wrong @ w2.T * (1 - hidden**2)
    return np.concatenate([(x.T @ back).ravel(), back.sum(0), (hidden.T @ wrong).ravel(), wrong.sum(0)])


SHAPES = ((64, 12), (12,), (12, 10), (10,))


def trained(merge: Callable[[Vectors], np.ndarray]) -> np.ndarray:
    """Parameters after all rounds of plain NumPy; `merge` makes one vector of the workers' gradients."""
    w = network().store.values.copy()
    x, y = np.asarray(DATA[0], np.float64), np.asarray(DATA[1], np.float64)
    for round_ in range(ROUNDS):
        firsts = [SAMPLES * (round_ * WORKERS + worker) for worker in range(WORKERS)]
        w -= RATE * merge([gradient(w, x[first : first + SAMPLES], y[first : first + SAMPLES]) for first in firsts])
    return w


def krum_scores(vectors: Vectors, faulty: int) -> list[float]:
    scores = []
    for i, own in enumerate(vectors):
        others = sorted(float(((own - other) ** 2).sum()) for j, other in enumerate(vectors) if j != i)
        scores.append(sum(others[: max(1, len(vectors) - faulty - 2)]))
    return scores


def krum(faulty: int, keep: int = 1) -> Callable[[Vectors], np.ndarray]:
    return lambda vectors: np.mean([vectors[i] for i in np.argsort(krum_scores(vectors, faulty))[:keep]], axis=0)


def bulyan(faulty: int) -> Callable[[Vectors], np.ndarray]:
    def merge(vectors: Vectors) -> np.ndarray:
        left, chosen = list(vectors), []
        while len(chosen) < len(vectors) - 2 * faulty:
            chosen.append(left.pop(int(np.argmin(krum_scores(left, faulty)))))
        found = np.empty_like(vectors[0])
        for place, values in enumerate(np.array(chosen).T):
            middle = np.median(values)
            by_distance = sorted(values, key=lambda value, middle=middle: abs(value - middle))
            found[place] = np.mean(by_distance[: len(chosen) - 2 * faulty])
        return found

    return merge


def top_k(rho: float) -> Callable[[Vectors], np.ndarray]:
    rest = np.zeros((WORKERS, 910))

    def merge(vectors: Vectors) -> np.ndarray:
        wanted = rest + vectors
        sent = np.zeros_like(wanted)
        for worker, row in enumerate(wanted):
            places = np.argsort(-abs(row))[: int(np.ceil(rho * row.size))]
            sent[worker, places] = row[places]
        rest[:] = wanted - sent
        return sent.mean(axis=0)

    return merge


def clip(limit: float) -> Callable[[Vectors], np.ndarray]:
    return lambda vectors: np.mean([v * min(1, limit / np.sqrt((v**2).sum())) for v in vectors], axis=0)


# the pipelines compute in float32, the merge rules in the type of the model
@covers("RES-3")
@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("parts", "reference", "error"),
    [
        ({"merge": Krum(2)}, krum(2), 1e-12),
        ({"merge": Krum(1, keep=3)}, krum(1, 3), 1e-12),
        ({"merge": Bulyan(1)}, bulyan(1), 1e-12),
        ({"merge": Bulyan(0)}, bulyan(0), 1e-12),
        ({"up": SPARSE}, top_k(0.05), 1e-6),
        ({"up": ErrorFeedback(TopK(0.05)), "scope": "model"}, top_k(0.05), 1e-6),
        ({"up": GlobalClip(0.4)}, clip(0.4), 1e-6),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_scheme_over_the_whole_gradient_equals_its_paper(parts: Any, reference: Any, error: float) -> None:
    count = WORKERS * SAMPLES * ROUNDS
    plan = plan_of(
        IIDBlockAssignment(WORKERS), optimizer=OpContainer(PSGDOptimizer, SGDOptimizer, gd_params=(RATE,)),
        codec=Codec.of(AllToAll(), **parts), block_size=SAMPLES, epoch=1, order=FIXED,
    )  # fmt: skip
    job = DigitsJob(plan, network(), data=(DATA[0][:count], DATA[1][:count], *DATA[2:])).run()
    start, wanted = network().store.values, trained(reference)
    change = np.abs(wanted - start).max()
    assert change > 0.01
    for model in job.models.values():
        assert np.abs(model.store.values - wanted).max() < error * change


@covers("RES-3")
def test_clipping_and_sparsifying_do_what_they_are_for() -> None:
    """Without a clip the reference above would be that of the mean. Stages that are not of the model see each variable."""
    mean = trained(lambda vectors: np.mean(vectors, axis=0))
    assert np.abs(trained(clip(0.4)) - mean).max() > 1e-3
    plain, each = (run(codec=Codec.of(AllToAll(), up=stage)) for stage in (SPARSE, ErrorFeedback(TopK(0.05))))
    assert weights(plain) != weights(each)
    for kind in (
        NamedTopK,
        DGC,
        *(Codec.of(AllToAll(), up=up) for up in (Clip(1.0) | DGCMemory(0.9, TopK(0.1)), DiffRef(Int8()))),
    ):
        assert kind.traits.scope == "variable", kind


# ---- in all places


def run(workers: int = 5, nodes: Any = None, **options: Any) -> Any:
    given: dict[str, Any] = {
        "gd_type": SGDOptimizer, "gd_params": (0.2,), "block_size": 50, "epoch": 1, "seed": 3, "verbose": 0,
        "op_type": PSGDOptimizer, "checkpoint_every": None, **options,
    }  # fmt: skip
    model = given.pop("model", None) or network("float32")
    job = ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls())
    return job.parallel(nodes or in_process(workers), **given)


def weights(result: Any) -> set[bytes]:
    """The parameters, and buffers, that workers have at the end."""
    values = ((model.store.values.tobytes(), model.store.buffer_values.tobytes()) for model in result.models.values())
    return {b"".join(each) for each in values}


def vector(result: Any) -> np.ndarray:
    return next(iter(result.models.values())).store.values


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@covers("RES-3")
def test_every_place_and_exchange_has_the_same_bits() -> None:
    """Also with buffers, which travel beside the one vector, and past a server that is not needed."""
    for parts in ({"merge": Krum(1)}, {"up": SPARSE}):
        model = network("float32")
        if "up" in parts:
            model = nn.model.SequentialModel(
                [-1, 64], [nn.layer.Dense(12), nn.layer.BatchNorm(), nn.layer.Dense(10, "softmax")]
            )
            model.setup(nn.loss.Cross_Entropy_With_Softmax())
        peers: Any = Codec.of(AllToAll(), **parts, name="Peers")
        here = run(model=model, codec=peers)
        assert len(weights(here)) == 1
        for nodes, codec in (
            (simulated(5, "star 100Mbit/s 1ms"), peers),
            (in_process(5, ps=True), peers),
            (in_process(5, ps=True), Codec.of(PS(), **parts, name="Served")),
        ):
            assert weights(run(model=model, nodes=nodes, codec=codec)) == weights(here)
        # accounts are by variable all the same
        assert {entry.variable for entry in here.accounts[0] if entry.codec == "Peers"} == set(range(6 if "up" in parts else 4))


class Own(PSGDOptimizer):
    """Says nothing of vectors, so it puts single variables."""


@pytest.mark.share(2)
@pytest.mark.parametrize("op_type", [ParameterAveragingOptimizer, LocalUpdateOptimizer, DoubleBufferingOptimizer, Own])
def test_every_optimizer_goes_with_it(op_type: Any) -> None:
    """What puts single variables has the bits that it has with a codec of each variable, where the codec is a mean."""
    kind = Whole if op_type is not Own else Codec.of(AllToAll(), merge=Krum(1))
    one = run(codec=kind, op_type=op_type, block_size=20, assignment_type=FixedBlockAssignment.of(10), epoch=1)
    other = run(
        codec=Plain if op_type is not Own else kind, op_type=op_type if op_type is not Own else PSGDOptimizer,
        block_size=20, assignment_type=FixedBlockAssignment.of(10), epoch=1,
    )  # fmt: skip
    assert weights(one) == weights(other)
    assert len(weights(one)) == 1


@pytest.mark.long
def test_changes_and_results_of_a_server_are_of_the_whole_model() -> None:
    """Changes of several batches under Krum; parameters that a server's Adam makes; gossip."""
    delta = Codec.of(AllToAll(), send="delta", merge=Krum(1), trigger=Every(3))
    assert len(weights(run(codec=delta, op_type=ParameterAveragingOptimizer, block_size=100))) == 1
    adam: Any = {"merge": ServerOpt(ADAMOptimizer(0.01), merge=Krum(1))}
    served = run(codec=Codec.of(PS(), **adam), op_type=GradientAveragingOptimizer, nodes=in_process(5, ps=True))
    everywhere = run(codec=Codec.of(AllToAll(), **adam), op_type=GradientAveragingOptimizer)
    after = run(codec=Codec.of(AllToAll(), merge=Krum(1)), gd_type=ADAMOptimizer, gd_params=(0.01,))
    assert weights(served) == weights(everywhere)
    np.testing.assert_allclose(vector(served), vector(after), rtol=0, atol=1e-6)
    gossip = Codec.of(Gossip("ring"), send="weights", up=DiffRef(TopK(0.1)), scope="model")
    assert len(weights(run(codec=gossip, op_type=ParameterAveragingOptimizer))) == 5


@pytest.mark.parametrize("kind", [Codec.of(AllToAll(), up=SPARSE), Codec.of(PS(), up=SPARSE, down=ErrorFeedback(Int8(64)))])
def test_what_is_resumed_has_the_bits_of_what_never_stopped(kind: Any) -> None:
    """The memory of worker and server goes into checkpoints, and on."""
    nodes = lambda: in_process(3, ps=kind.traits.needs_server)  # noqa: E731 - of each job
    whole = run(nodes=nodes(), codec=kind, epoch=2)
    first = run(nodes=nodes(), codec=kind, epoch=1, checkpoint_every="epoch")
    assert weights(run(nodes=nodes(), codec=kind, epoch=2, resume=first.job_id)) == weights(whole) != weights(first)


def test_a_run_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`psgd verify` computes the batches of a run again, by the named codec."""
    result = run(codec=NamedKrum, checkpoint_every="epoch")
    assert cli.main(["verify", str(result.files[0][0].resolve().parent.parent)]) == 0, capsys.readouterr()


# ---- classes of one's own


class Whole(Plain):
    """The mean over blocks, of the whole gradient."""

    scope = "model"
    seen: list[Any] = []  # what the first codec of a job was told

    def update_blocks(self, block_weight: Any) -> Any:
        if not Whole.seen:
            settings = GlobalSettings.current()
            Whole.seen += [settings.variable, GlobalSettings.get_value().shape, block_weight.content.shape]
        return super().update_blocks(block_weight)


@covers("RES-3")
def test_a_class_of_ones_own_gets_one_vector() -> None:
    Whole.seen.clear()
    result = run(codec=Whole)
    assert Whole.seen == [0, (910,), (910,)]
    assert weights(result) == weights(run(codec=Plain))
    # of what counts for the class that says it alone, it has inherited nothing
    assert not Whole.traits.elementwise and not Whole.traits.takes_sums
    one = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(10, "softmax", use_bias=False)])
    one.setup(nn.loss.Cross_Entropy_With_Softmax())
    Whole.seen.clear()
    assert weights(run(model=one, codec=Whole)) == weights(run(model=one, codec=Plain))
    assert Whole.seen == [0, (640,), (640,)]


class Average(Answering):
    """FedBuff with a buffer of one update: the server adds each change to the parameters, and answers with them."""

    traits = Traits(needs_server=True, serves=True, asynchronous=True, awaits_answer=True, gives="parameters", agrees=False)
    scope = "model"

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.values = None if node_id == Parameter_Server else GlobalSettings.get_value().copy()

    def update_blocks(self, block_weight: Any) -> Any:
        return netEncapsulation(Parameter_Server, (block_weight.content, self.values))

    def receive_blocks(self, content: Any) -> None:
        if self.node_id == Parameter_Server:
            gradient, start = content
            self.values = (start if self.values is None else self.values) - 0.1 * gradient
        else:
            self.set_result(content)

    def answer(self, node: int) -> Any:
        return netEncapsulation(node, self.values)


def test_a_server_of_ones_own_holds_one_vector_and_takes_packets_of_any_batch() -> None:
    alone, result = (
        run(codec=Average, sync_type=AsynchronizedSGD, op_type=GradientAveragingOptimizer, nodes=in_process(count, ps=True))
        for count in (1, 2)
    )
    # with one worker nothing is stale
    np.testing.assert_allclose(vector(alone), vector(run(1, codec=Plain, gd_params=(0.1,))), rtol=0, atol=1e-6)
    assert np.isfinite(vector(result)).all()
    assert {entry.variable for entry in result.accounts[Parameter_Server]} == {0, 1, 2, 3}


class ByVariable(Krum):
    """Krum as it was: of each variable by itself."""

    scope = "variable"


@covers("RES-3")
def test_krum_of_each_variable_is_another_rule() -> None:
    each, whole = Codec.of(AllToAll(), merge=ByVariable(1)), Codec.of(AllToAll(), merge=Krum(1))
    assert (each.traits.scope, whole.traits.scope, NamedKrum.traits.scope) == ("variable", "model", "model")
    assert weights(run(codec=each)) != weights(run(codec=whole)) == weights(run(codec=NamedKrum))


# ---- laws and refusals


LAWFUL: list[tuple[Any, int]] = [
    (NamedKrum, 5),
    (Codec.of(AllToAll(), merge=Bulyan(1)), 7),
    (Codec.of(PS(), up=GlobalClip(2.0), down=Int8(16)), 3),
    (Codec.of(ShardedPS(smallest=8), up=ErrorFeedback(GlobalTopK(0.05) | Int8(16))), 3),
    (Whole, 3),
]


@pytest.mark.parametrize(("kind", "workers"), LAWFUL)
@pytest.mark.share(2)
def test_the_laws_hold(kind: Any, workers: int) -> None:
    assert len(check_codec(kind, assignments=[FixedBlockAssignment(workers, 1, workers + 1)]).held) >= 6


class Writes(Whole):
    """Writes into what it is given."""

    scope = "model"

    def update_blocks(self, block_weight: Any) -> Any:
        block_weight.content[270:] = 0  # behind the first variable
        return super().update_blocks(block_weight)


def test_a_law_that_is_broken_by_a_vector_is_told() -> None:
    with pytest.raises(AssertionError, match="content must not be changed, but block 0 was"):
        check_codec(Writes)


KRUM = Codec.of(AllToAll(), merge=Krum(1), name="Chosen")


@covers("RES-3")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": {0: KRUM}}, r"'codec' must not have Chosen in a dict: its scope is \"model\""),
        ({"codec": {"dense_1": KRUM}}, r"'codec' must not have Chosen in a dict.*; write codec=Chosen"),
        ({"codec": SyncPS, "ps_codec": {0: Average}}, r"'ps_codec' must not have Average in a dict"),
        (
            {"codec": SyncPS, "ps_codec": Average},
            r"'ps_codec' Average has the scope \"model\", but 'codec' SyncPS \"variable\"",
        ),
        ({"codec": Codec.of(PS(), merge=Krum(1)), "ps_codec": SyncPS}, r"'ps_codec' SyncPS has the scope \"variable\", but"),
        ({"codec": KRUM, "op_type": nn.optimizer.ShardedPSGDOptimizer}, r"takes no other 'codec' than Plain, got Chosen"),
        ({"codec": Codec.of(AllToAll(), merge=Bulyan(1))}, r"Bulyan\(faulty=1\) needs 7 workers or more, got 5"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(nodes=in_process(5, ps="ps_codec" in options), **options)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"scope": "modle"}, r"'scope' must be one of variable, model, got 'modle'; did you mean 'model'\?"),
        ({"scope": 3}, "'scope' must be one of variable, model, got 3"),
        ({"merge": Krum(1), "scope": "variable"}, r'write scope="model", or leave it out.*derive a class from Krum'),
        ({"up": ErrorFeedback(GlobalTopK(0.1) | Int8()), "scope": "variable"}, "derive a class from GlobalTopK"),
        ({"up": PowerSGD(2), "scope": "model"}, r"PowerSGD\(rank=2\) needs matrices"),
    ],
)
def test_parts_of_another_scope_are_refused(parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Codec.of(AllToAll(), **parts)


def test_a_part_that_needs_a_parameter_is_refused_in_the_job_unless_the_scope_is_said() -> None:
    def made() -> Krum:
        return Krum(GlobalSettings.get_params("faulty", REQUIRED))

    for scope, fits in ((None, False), ("model", True)):
        kind = Codec.of(AllToAll(), merge=made, **({} if scope is None else {"scope": scope}))
        if fits:
            assert len(weights(run(codec=kind, codec_extra_parameters={"faulty": 1}, epoch=1))) == 1
        else:
            with pytest.raises(ValueError, match=r"Krum\(faulty=1, keep=1\) looks at the gradient as a whole"):
                run(codec=kind, codec_extra_parameters={"faulty": 1})


def test_a_class_says_its_scope_in_one_word() -> None:
    with pytest.raises(ValueError, match=r"Short\.scope must be 'variable' or 'model', got 'modl'; did you mean 'model'\?"):
        type("Short", (Plain,), {"scope": "modl"})
    with pytest.raises(ValueError, match=r"SizeAdaptive 'big' must be a codec of single variables, got Chosen"):
        SizeAdaptive(big=KRUM)
    with pytest.raises(ValueError, match="Traits 'scope' must be 'variable' or 'model', got 'all'"):
        Traits(scope="all")  # type: ignore[arg-type]
    # a subclass with traits of its own has the scope that the attribute tells, too
    assert type("Further", (Whole,), {"traits": Traits(agrees=False)}).traits == Traits(agrees=False, scope="model")
    # a name of the author's own, for anything else
    own = type("Other", (Plain,), {"scope": lambda self: 3})
    assert own.traits.scope == "variable"
    assert Codec.of(AllToAll(), merge=Mean()).traits.scope == "variable"


def test_the_gradient_of_a_usual_optimizer_is_not_copied() -> None:
    """One vector in the model's memory is put, as for neighbouring variables."""
    for op_type, kind in ((PSGDOptimizer, BlockExchange), (Own, WholeExchange)):
        plan = plan_of(
            IIDBlockAssignment(2), optimizer=OpContainer(op_type, SGDOptimizer), codec=Whole, epoch=1, block_size=200
        )
        job = DigitsJob(plan, network("float32")).run()
        assert {type(worker.exchange) for worker in job.workers.values()} == {kind}
