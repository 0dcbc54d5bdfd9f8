"""What goes together, what is refused or warned of; how classes are named, told apart, travel, and what a job loads of them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parallel_sgd.codec
from nn.gradient_descent import ADAMOptimizer, MomentumOptimizer, SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer, LocalUpdateOptimizer, PSGDOptimizer
from parallel_sgd.codec import (
    REQUIRED,
    SCAFFOLD,
    BlockWeight,
    Codec,
    FedProx,
    GlobalSettings,
    MissingParameter,
    OneBitAdam,
    Plain,
)
from parallel_sgd.codec.choice import by_variable, choose_server_codecs
from parallel_sgd.codec.compose import (
    PS,
    AllToAll,
    CodecWarning,
    Delay,
    Drift,
    Elastic,
    Every,
    FirstCopy,
    FrozenAdam,
    Gossip,
    Krum,
    Lazy,
    LocalRule,
    Mean,
    Median,
    Prox,
    Ring,
    ServerOpt,
    ShardedPS,
    Tree,
    Vote,
    Warmup,
    WeightedMean,
    check,
    estimate,
)
from parallel_sgd.codec.compose.parts import identity
from parallel_sgd.codec.pipeline import (
    QSGD,
    Cast,
    Clip,
    DiffRef,
    ErrorFeedback,
    Int8,
    Momentum,
    PowerSGD,
    RandomK,
    Sign,
    Tern,
    TopK,
    TwoMeans,
)
from parallel_sgd.options.names import UnknownName, find_class, known_classes
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment
from rpc.shipping import load, pack
from tests.parallel_sgd.codec.compositions import bits, run

EF, STEP = ErrorFeedback(TopK(0.1)), ServerOpt(SGDOptimizer(1.0))
#: Parts that do not go together, and the fix.
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (Ring(), {"up": Int8()}, r"Ring adds up payloads, but Int8\(block=4096\) is not linear: take ShardedPS\(\)"),
    (Ring(), {"merge": Median()}, r"Ring adds up on the way, which Median\(\) cannot use: take ShardedPS\(\)"),
    (Ring(), {"up": RandomK(0.1), "merge": FirstCopy()}, r"FirstCopy encodes every block by itself.*AllToAll\(\)"),
    (Ring(), {"down": Int8()}, "encodes nothing on the way back.*take ShardedPS"),
    (AllToAll(), {"down": Int8()}, "encodes nothing on the way back"),
    (ShardedPS(), {"down": Clip(1)}, r"'down' must be what sends; Clip\(norm=1.0, workers=1\) belongs to 'up'"),
    (ShardedPS(), {"merge": Krum()}, r"looks at vectors as a whole.*take AllToAll\(\) or PS\(\)"),
    (ShardedPS(), {"up": PowerSGD()}, r"PowerSGD needs means of its factors: take Ring\(\)"),
    (AllToAll(), {"up": PowerSGD(), "merge": Vote()}, "PowerSGD needs means of its factors"),
    (AllToAll(), {"up": PowerSGD(), "merge": FirstCopy()}, "FirstCopy needs an encoding of single blocks"),
    (AllToAll(), {"merge": FirstCopy(), "send": "delta"}, "FirstCopy counts blocks"),
    (AllToAll(), {"trigger": Every(2)}, r'must exchange parameters: use send="weights" or send="delta"'),
    (AllToAll(), {"trigger": Delay(1), "send": "weights"}, "is for gradients and updates"),
    (AllToAll(), {"trigger": Delay(1), "merge": STEP}, "results of an earlier batch"),
    (PS(), {"trigger": Delay(1)}, r"needs two batches under way: take AllToAll\(\)"),
    (AllToAll(), {"merge": STEP, "send": "weights"}, 'use send="delta"'),
    (AllToAll(), {"up": EF, "send": "weights"}, 'not for parameters themselves: use send="delta", or DiffRef'),
    (AllToAll(), {"up": Momentum() | QSGD(), "send": "weights"}, 'use send="delta"'),
    (Gossip(), {}, 'only parameters come together again: use send="weights" with op_type=ParameterAveraging'),
    (Gossip(), {"send": "weights", "merge": Median()}, "has weights of its own"),
    (Gossip(), {"send": "weights", "up": PowerSGD()}, "PowerSGD needs means of its factors"),
    (PS(quorum=0.5), {"up": DiffRef(TopK(0.1))}, r"may leave a packet out, .* needs every one: use PS\(\)"),
    (AllToAll(), {"up": EF, "trigger": Lazy()}, "needs a deterministic pipeline without a memory"),
    (ShardedPS(), {"up": Int8(), "trigger": Lazy()}, r"merging as a whole, by AllToAll\(\) or PS\(\)"),
    (Tree(), {"merge": Median()}, "adds up on the way"),
    (AllToAll(), {"send": "gradients"}, "'send' must be one of gradient, weights, delta, got 'gradients'"),
    (AllToAll(), {"name": "no name"}, "'name' must be a name for a class, got 'no name'"),
    (AllToAll(), {"local": Prox(0.1)}, r'Prox\(mu=0.1, learn_rate=None\) goes with send="delta", got \'gradient\''),
    (AllToAll(), {"local": Elastic(), "send": "delta"}, 'goes with send="weights"'),
    (AllToAll(), {"local": FrozenAdam(), "send": "delta"}, 'goes with send="gradient"'),
    (AllToAll(), {"local": FrozenAdam()}, r"begins with dense batches: take trigger=Warmup\(n\).*, got Every\(batches=1\)"),
    (AllToAll(), {"local": FrozenAdam(), "trigger": Warmup(3), "merge": Median()}, r"needs the mean .*, got Median\(\)"),
    (AllToAll(), {"local": Drift(), "send": "delta", "merge": STEP}, "needs the mean of what it sends"),
    (AllToAll(), {"local": Drift(), "send": "delta", "up": PowerSGD()}, r"sends 2 vectors .*, but PowerSGD.* needs a matrix"),
    (Gossip(), {"local": Elastic(), "send": "weights"}, "needs one result for all"),
    (AllToAll(), {"local": FrozenAdam(), "trigger": Warmup(1, Delay(1))}, "needs one result for all, of the same batch"),
]
#: Parts of another kind.
NO_PARTS: list[tuple[str, Any, str]] = [
    ("up", TopK, r"'up' must be a stage or PowerSGD, got the class; write TopK\(\)"),
    ("up", 3, "'up' must be a stage or PowerSGD, or a function that makes one, got 3"),
    ("down", PowerSGD(), "'down' must be a stage"),
    ("merge", Mean, r"got the class; write Mean\(\)"),
    ("merge", lambda: 1, "'merge' must be a merge rule"),
    ("trigger", 5, "'trigger' must be a trigger"),
    ("local", Drift, r"'local' must be a local rule such as Prox\(0.01\), got the class; write Drift\(\)"),
]
#: Arguments of parts, and jobs that they do not suit.
ARGUMENTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: PS(quorum=1.5), r"PS 'quorum' must be a number > 0 and <= 1, got 1\.5"),
    (lambda: Delay(2), "Delay 'batches' must be 1"),
    (lambda: Every(0), "Every 'batches' must be a positive integer, got 0"),
    (lambda: Gossip([[0.5, 0.5], [0.4, 0.6]]), "Gossip 'matrix' must be square, symmetric"),
    (lambda: Gossip("star"), "Gossip 'matrix' must be 'ring' or a matrix, got 'star'"),
    (lambda: ServerOpt(SGDOptimizer(0.1, weight_decay=0.1)), "no weight_decay"),
    (lambda: Elastic(1.5), r"Elastic 'alpha' must be a number > 0 and <= 1, got 1\.5"),
    (lambda: Prox(-1), "Prox 'mu' must be a number >= 0, got -1"),
    (lambda: Drift(0), "Drift 'learn_rate' must be a number > 0, got 0"),
    (lambda: LocalRule().load_state_dict({"x": 1}), "LocalRule remembers nothing, got x"),
    (
        lambda: run(Codec.of(Gossip(np.full((2, 2), 0.5).tolist()), send="weights"), IIDBlockAssignment(3)),
        r"Gossip 'matrix' is for 2 workers, the job has 3",
    ),
    (
        lambda: run(Codec.of(AllToAll(), merge=WeightedMean([1, 0.5, 2.5])), IIDBlockAssignment(2)),
        "WeightedMean 'weights' has 3 numbers, the job has 2 workers",
    ),
    (
        lambda: run(Codec.of(Tree(), name="Tree"), DuplicateAssignment(4, 2)),
        r"Tree has one way for each block: use AllToAll\(\)",
    ),
]


@pytest.mark.parametrize(("exchange", "parts", "message"), REFUSED, ids=[message[:50] for *_, message in REFUSED])
def test_what_cannot_work_is_refused_with_the_fix(exchange: Any, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Codec.of(exchange, **parts)


def test_parts_of_another_kind_and_arguments_are_named() -> None:
    for name, part, message in NO_PARTS:
        with pytest.raises(TypeError, match=message):
            Codec.of(AllToAll(), **{name: part})
    for make, message in ARGUMENTS:
        with pytest.raises(ValueError, match=message):
            make()
    with GlobalSettings.use(IIDBlockAssignment(1)), pytest.raises(LookupError, match="there is none: pass 'learn_rate'"):
        Codec.of(AllToAll(), send="delta", local=Drift())(0).update_blocks(BlockWeight(np.ones(3, np.float32), 0))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"up": TopK(0.1)}, r"up=TopK\(rho=0.1, warmup=0\) loses a part .* write ErrorFeedback\(TopK"),
        ({"up": Sign()}, r"write ErrorFeedback\(Sign"),
        ({"up": TwoMeans()}, "write ErrorFeedback"),
        ({"up": RandomK(0.1, scaled=False)}, "write ErrorFeedback"),
        ({"up": TopK(0.1), "send": "weights"}, "write DiffRef"),
        ({"up": EF, "send": "delta", "merge": ServerOpt(MomentumOptimizer(1.0, 0.9))}, r"has momentum \(momentum=0.9\)"),
    ],
    ids=repr,
)
def test_what_trains_badly_is_warned_of(parts: dict[str, Any], message: str) -> None:
    with pytest.warns(CodecWarning, match=message) as caught:
        Codec.of(AllToAll(), **parts)
    assert caught[0].filename == __file__


def test_what_trains_well_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for up in (None, Int8(), Cast("bf16"), QSGD(2), Tern(), RandomK(0.1), EF, DiffRef(TopK(0.1)), PowerSGD()):
            Codec.of(AllToAll(), up=up)
        Codec.of(AllToAll(), up=Sign(scale=None), merge=Vote())


def test_momentum_after_a_merge_of_what_comes_late_is_warned_of() -> None:
    """EF-TopK with global momentum loses 23 points of accuracy."""
    fed = Codec.of(AllToAll(), up=EF, name="Fed")
    for rule, what in ((MomentumOptimizer(0.1, 0.9), "momentum=0.9"), (ADAMOptimizer(1e-3), "beta1=0.9")):
        (text,) = check(fed, rule, PSGDOptimizer)
        said = f"Fed sends later what a packet leaves out, and {type(rule).__name__} with {what} after the merge"
        assert text.startswith(said) and "use op_type=LocalUpdateOptimizer" in text
        assert check(fed, rule, LocalUpdateOptimizer) == []
    assert check(fed, SGDOptimizer(0.1), PSGDOptimizer) == []
    for kind in (Codec.of(AllToAll(), up=QSGD()), Plain):
        assert check(kind, ADAMOptimizer(), PSGDOptimizer) == []
    assert check(OneBitAdam, ADAMOptimizer(), GradientAveragingOptimizer) == [], "the job's rule is not used"


def test_parts_are_made_of_the_parameters_of_the_job_for_each_object() -> None:
    kind: Any = Codec.of(AllToAll(), up=lambda: QSGD(GlobalSettings.get_params("bits", REQUIRED)), name="Needing")
    with GlobalSettings.use(IIDBlockAssignment(2)), pytest.raises(MissingParameter, match="needs the parameter 'bits'"):
        kind(0)
    made = []
    for bits_ in (4, 8):
        with GlobalSettings.use(IIDBlockAssignment(2), {"bits": bits_}):
            made.append(kind(0))
    assert repr(made[0].parts.up) == "QSGD(bits=4, bucket=512, norm='l2')"
    assert made[0].fingerprint != made[1].fingerprint
    with GlobalSettings.use(IIDBlockAssignment(2)):
        ups = [Codec.of(AllToAll(), up=EF)(0).parts.up for _ in range(2)]  # type: ignore[attr-defined]
    assert len({id(up) for up in (*ups, EF)}) == 3


def test_names_and_declarations_tell_what_a_class_is_made_of() -> None:
    assert Codec.of(ShardedPS(), up=ErrorFeedback(TopK(0.1) | Int8())).__name__ == "ShardedPSErrorFeedbackTopKInt8"
    assert Codec.of(Ring(), up=PowerSGD()).__name__ == "RingPowerSGD"
    kind = Codec.of(PS(), up=Int8(), name="Mine")
    assert (kind.__name__, kind.__module__, kind.traits.needs_server, kind.traits.serves) == ("Mine", "__main__", True, True)
    parts = "PS(quorum=1.0), up=Int8(block=4096), down=None, send=gradient, Mean(), Every(batches=1)"
    assert kind.__doc__ == f"Composed: Codec.of({parts})."
    first = {Codec.of(AllToAll()), Codec.of(PS()), Codec.of(AllToAll(), up=Int8(), merge=FirstCopy())}
    assert all(kind.traits.takes_first_copy for kind in first)
    assert not any(kind.traits.takes_first_copy for kind in (Codec.of(AllToAll(), up=Int8()), Codec.of(Ring())))
    served = Codec.of(PS(), merge=ServerOpt(SGDOptimizer(0.1)))
    delta = Codec.of(AllToAll(), send="delta", merge=ServerOpt(SGDOptimizer(0.1)))
    for kind, takes, gives in (
        (served, "gradients", "parameters"),
        (delta, "parameters", "parameters"),
        (Codec.of(AllToAll()), None, None),
        (OneBitAdam, "gradients", "parameters"),
        (SCAFFOLD, "parameters", None),
        (FedProx, "parameters", None),
    ):
        assert (kind.traits.takes, kind.traits.gives, kind.traits.synchronous) == (takes, gives, True)
    assert not Codec.of(Gossip(), send="weights").traits.agrees
    assert not Codec.of(AllToAll(), send="weights", trigger=Every(3)).traits.agrees


Shipped = Codec.of(ShardedPS(smallest=1), up=ErrorFeedback(TopK(0.3) | Int8()), name="Shipped")


def test_a_composed_class_travels() -> None:
    """A user's own by value, those that ship by name."""
    inner = Codec.of(AllToAll(), up=lambda: QSGD(4, bucket=8), name="Inner", trigger=Warmup(1))
    for kind in (Shipped, inner):
        bundle = pack({"codec": kind})
        assert bundle.code
        arrived = load(bundle.objects, bundle.code)[0]["codec"]
        assert arrived is not kind and arrived.__name__ == kind.__name__
        assert bits(run(arrived, IIDBlockAssignment(3))) == bits(run(kind, IIDBlockAssignment(3)))
    for name in parallel_sgd.codec.SHIPPED:
        kind = getattr(parallel_sgd.codec, name)
        bundle = pack({"codec": kind})
        assert not bundle.code, name
        assert load(bundle.objects, bundle.code)[0]["codec"] is kind


def test_an_identity_is_made_of_classes_and_arguments() -> None:
    chain = ["Chain", {"stages": [["TopK", {"rho": 0.1, "warmup": 0}], ["Int8", {"block": 4096}]]}]
    wanted = [["Clip", {"norm": 2.0, "workers": 1}], ["ErrorFeedback", {"inner": chain, "beta": 1.0}]]
    assert identity(Clip(2.0) | ErrorFeedback(TopK(0.1) | Int8())) == ["Chain", {"stages": wanted}]


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("Plain", ("named", "compose", "pipeline", "async_ps")),
        ("TopK", ("local", "merge_rules", "mixing", "floats", "grids", "one_bit", "quantizer", "stochastic")),
    ],
)
def test_a_codec_loads_what_it_is_made_of(name: str, without: tuple[str, ...]) -> None:
    code = f"import sys; from parallel_sgd.codec import {name}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    words = {word for module in loaded if module.startswith("parallel_sgd.codec.") for word in module.split(".")[2:]}
    assert name == "Plain" or {"named", "memory", "sparsify"} <= words
    assert words.isdisjoint(without)


def test_codecs_are_found_by_name() -> None:
    known = known_classes(parallel_sgd.codec, Codec)
    for name in ("plain", "SyncPS", "FedAvg", "qsgd", "TernGrad", "LevelQuantizer", "ServerAdam", "DGC", "powersgd"):
        assert find_class(name, Codec, known, "--codec").__name__.lower() == name.lower()
    with pytest.raises(
        UnknownName, match=r"--codec 'topp' is unknown; did you mean 'TopK'\? All 51 are in parallel_sgd\.codec; or write"
    ):
        find_class("topp", Codec, known, "--codec")


def test_codecs_are_chosen_for_servers_and_by_the_names_of_layers() -> None:
    """A server has those of its workers where they serve."""
    served, default = Codec.of(PS(), up=Int8(), name="Served"), parallel_sgd.codec.SyncPS
    for own, workers, chosen in (
        (None, served, [served, served]),
        (None, {1: served}, [default, served]),
        (None, Plain, [default, default]),
        ({0: Plain}, served, [Plain, served]),
        (Plain, served, [Plain, Plain]),
    ):
        assert choose_server_codecs(own, workers, default, 2) == chosen  # type: ignore[arg-type]
    names = ["dense_1/kernel", "dense_1/bias", "dense_2/kernel"]
    one, two, three = (Codec.of(AllToAll(), name=name) for name in ("One", "Two", "Three"))
    assert by_variable({"dense_1": one, "dense_1/bias": two}, names) == {0: one, 1: two}
    assert by_variable({0: three, "dense_1": one, "dense_2": two}, names) == {0: three, 1: one, 2: two}
    assert by_variable(one, names) is one
    with pytest.raises(ValueError, match=r"'codec' names 'dense_9', but the model has the layers dense_1, dense_2"):
        by_variable({"dense_9": one}, names)


def test_whether_it_pays_to_encode() -> None:
    """Compress iff (4n - payload) / bandwidth > encode + W' decode."""
    times, qsgd = iter(range(100)), parallel_sgd.codec.QSGD
    found = estimate(qsgd, 1024, 1000, workers=3, parameters={"bits": 4}, clock=lambda: float(next(times)))
    assert found == (512 + 8, 4096, 1.0, 3.0, (4096 - 520) / 1000)
    assert not found.pays and found._replace(saved=4.1).pays
    for kind, bandwidth, error, message in (
        (Plain, 1.0, TypeError, r"must be a class that Codec.of made"),
        (parallel_sgd.codec.PowerSGD, 1.0, TypeError, "must be made of stages"),
        (qsgd, 0, ValueError, "'bandwidth' must be a number > 0"),
    ):
        with pytest.raises(error, match=message):
            estimate(kind, 10, bandwidth)
