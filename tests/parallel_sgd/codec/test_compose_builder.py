"""What goes together, what is refused or warned of, and how classes are named and travel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import parallel_sgd.codec
from nn.gradient_descent import ADAMOptimizer, MomentumOptimizer, SGDOptimizer
from nn.optimizer import LocalUpdateOptimizer, PSGDOptimizer
from parallel_sgd.codec import REQUIRED, Codec, GlobalSettings, MissingParameter, Plain
from parallel_sgd.codec.choice import by_variable, choose_server_codecs
from parallel_sgd.codec.compose import (
    PS,
    AllToAll,
    CodecWarning,
    Delay,
    Every,
    FirstCopy,
    Gossip,
    Krum,
    Lazy,
    Mean,
    Median,
    Ring,
    ServerOpt,
    ShardedPS,
    Tree,
    Vote,
    Warmup,
    check,
    estimate,
)
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
from parallel_sgd.names import UnknownName, find_class, known_classes
from parallel_sgd.profiles import IIDBlockAssignment
from rpc.shipping import load, pack
from tests.parallel_sgd.codec.compositions import bits, run

EF = ErrorFeedback(TopK(0.1))
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"exchange": Ring(), "up": Int8()},
        r"Ring adds up payloads, but Int8\(block=4096\) is not linear: take ShardedPS\(\)",
    ),
    (
        {"exchange": Ring(), "merge": Median()},
        r"Ring adds up on the way, which Median\(\) cannot use: take ShardedPS\(\)",
    ),
    (
        {"exchange": Ring(), "up": RandomK(0.1), "merge": FirstCopy()},
        r"FirstCopy encodes every block by itself.*AllToAll\(\)",
    ),
    ({"exchange": Ring(), "down": Int8()}, "encodes nothing on the way back.*take ShardedPS"),
    ({"exchange": AllToAll(), "down": Int8()}, "encodes nothing on the way back"),
    (
        {"exchange": ShardedPS(), "down": Clip(1)},
        r"'down' must be what sends; Clip\(norm=1.0, workers=1\) belongs to 'up'",
    ),
    ({"exchange": ShardedPS(), "merge": Krum()}, r"looks at vectors as a whole.*take AllToAll\(\) or PS\(\)"),
    ({"exchange": ShardedPS(), "up": PowerSGD()}, r"PowerSGD needs means of its factors: take Ring\(\)"),
    (
        {"exchange": AllToAll(), "up": PowerSGD(), "merge": Vote()},
        "PowerSGD needs means of its factors",
    ),
    (
        {"exchange": AllToAll(), "up": PowerSGD(), "merge": FirstCopy()},
        "FirstCopy needs an encoding of single blocks",
    ),
    ({"exchange": AllToAll(), "merge": FirstCopy(), "send": "delta"}, "FirstCopy counts blocks"),
    (
        {"exchange": AllToAll(), "trigger": Every(2)},
        r'must exchange parameters: use send="weights" or send="delta"',
    ),
    ({"exchange": AllToAll(), "trigger": Delay(1), "send": "weights"}, "is for gradients and updates"),
    (
        {"exchange": AllToAll(), "trigger": Delay(1), "merge": ServerOpt(SGDOptimizer(1.0))},
        "results of an earlier batch",
    ),
    ({"exchange": PS(), "trigger": Delay(1)}, r"needs two batches under way: take AllToAll\(\)"),
    ({"exchange": AllToAll(), "merge": ServerOpt(SGDOptimizer(1.0)), "send": "weights"}, 'use send="delta"'),
    (
        {"exchange": AllToAll(), "up": EF, "send": "weights"},
        'not for parameters themselves: use send="delta", or DiffRef',
    ),
    ({"exchange": AllToAll(), "up": Momentum() | QSGD(), "send": "weights"}, 'use send="delta"'),
    ({"exchange": Gossip()}, 'only parameters come together again: use send="weights" with op_type=ParameterAveraging'),
    ({"exchange": Gossip(), "send": "weights", "merge": Median()}, "has weights of its own"),
    ({"exchange": Gossip(), "send": "weights", "up": PowerSGD()}, "PowerSGD needs means of its factors"),
    (
        {"exchange": PS(quorum=0.5), "up": DiffRef(TopK(0.1))},
        r"may leave a packet out, .* needs every one: use PS\(\)",
    ),
    ({"exchange": AllToAll(), "up": EF, "trigger": Lazy()}, "needs a deterministic pipeline without a memory"),
    (
        {"exchange": ShardedPS(), "up": Int8(), "trigger": Lazy()},
        r"merging as a whole, by AllToAll\(\) or PS\(\)",
    ),
    ({"exchange": Tree(), "merge": Median()}, "adds up on the way"),
    ({"exchange": AllToAll(), "send": "gradients"}, "'send' must be one of gradient, weights, delta, got 'gradients'"),
    ({"exchange": AllToAll(), "name": "no name"}, "'name' must be a name for a class, got 'no name'"),
]


@pytest.mark.parametrize(("parts", "message"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_work_is_refused_with_the_fix(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Codec.of(parts["exchange"], **{name: part for name, part in parts.items() if name != "exchange"})


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("up", TopK, r"'up' must be a stage or PowerSGD, got the class; write TopK\(\)"),
        ("up", 3, "'up' must be a stage or PowerSGD, or a function that makes one, got 3"),
        ("down", PowerSGD(), "'down' must be a stage"),
        ("merge", Mean, r"got the class; write Mean\(\)"),
        ("merge", lambda: 1, "'merge' must be a merge rule"),
        ("trigger", 5, "'trigger' must be a trigger"),
    ],
)
def test_parts_of_another_kind_are_named(name: str, part: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Codec.of(AllToAll(), **{name: part})


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"up": TopK(0.1)}, r"up=TopK\(rho=0.1, warmup=0\) loses a part .* write ErrorFeedback\(TopK"),
        ({"up": Sign()}, r"write ErrorFeedback\(Sign"),
        ({"up": TwoMeans()}, "write ErrorFeedback"),
        ({"up": RandomK(0.1, scaled=False)}, "write ErrorFeedback"),
        ({"up": TopK(0.1), "send": "weights"}, "write DiffRef"),
        (
            {"up": EF, "send": "delta", "merge": ServerOpt(MomentumOptimizer(1.0, 0.9))},
            r"ServerOpt has momentum \(momentum=0.9\)",
        ),
    ],
    ids=repr,
)
def test_what_trains_badly_is_warned_of(parts: dict[str, Any], message: str) -> None:
    with pytest.warns(CodecWarning, match=message) as caught:
        Codec.of(AllToAll(), **parts)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "up",
    [
        None,
        Int8(),
        Cast("bf16"),
        QSGD(2),
        Tern(),
        RandomK(0.1),
        EF,
        DiffRef(TopK(0.1)),
        PowerSGD(),
    ],
    ids=repr,
)
def test_what_trains_well_is_not(up: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Codec.of(AllToAll(), up=up)
        Codec.of(AllToAll(), up=Sign(scale=None), merge=Vote())


def test_momentum_after_a_merge_of_what_comes_late_is_warned_of() -> None:
    """codecs.md, negative controls: EF-TopK with global momentum loses 23 points of accuracy."""
    fed = Codec.of(AllToAll(), up=EF, name="Fed")
    for rule, what in ((MomentumOptimizer(0.1, 0.9), "momentum=0.9"), (ADAMOptimizer(1e-3), "beta1=0.9")):
        (text,) = check(fed, rule, PSGDOptimizer)
        assert text.startswith(
            f"Fed sends later what a packet leaves out, and {type(rule).__name__} with {what} after the merge"
        )
        assert "use op_type=LocalUpdateOptimizer" in text
        assert check(fed, rule, LocalUpdateOptimizer) == []
    assert check(fed, SGDOptimizer(0.1), PSGDOptimizer) == []
    assert check(Codec.of(AllToAll(), up=QSGD()), ADAMOptimizer(), PSGDOptimizer) == []
    assert check(Plain, ADAMOptimizer(), PSGDOptimizer) == []


def test_functions_make_parts_of_the_parameters_of_the_job() -> None:
    kind = Codec.of(AllToAll(), up=lambda: QSGD(GlobalSettings.get_params("bits", REQUIRED)), name="Needing")
    with GlobalSettings.use(IIDBlockAssignment(2)), pytest.raises(MissingParameter, match="needs the parameter 'bits'"):
        kind(0)
    with GlobalSettings.use(IIDBlockAssignment(2), {"bits": 4}):
        assert repr(kind(0).parts.up) == "QSGD(bits=4, bucket=512, norm='l2')"  # type: ignore[attr-defined]


def test_objects_have_parts_of_their_own() -> None:
    kind = Codec.of(AllToAll(), up=EF)
    with GlobalSettings.use(IIDBlockAssignment(2)):
        one, two = kind(0), kind(0)
    assert one.parts.up is not two.parts.up  # type: ignore[attr-defined]
    assert one.parts.up is not EF  # type: ignore[attr-defined]


def test_names_tell_what_a_class_is_made_of() -> None:
    assert Codec.of(ShardedPS(), up=ErrorFeedback(TopK(0.1) | Int8())).__name__ == "ShardedPSErrorFeedbackTopKInt8"
    assert Codec.of(Ring(), up=PowerSGD()).__name__ == "RingPowerSGD"
    kind = Codec.of(PS(), up=Int8(), name="Mine")
    assert (kind.__name__, kind.__module__) == ("Mine", "__main__")
    assert kind.__doc__ == (
        "Composed: Codec.of(PS(quorum=1.0), up=Int8(block=4096), down=None, send=gradient, Mean(), Every(batches=1))."
    )
    assert kind.needs_server
    assert kind.serves


def test_what_classes_declare() -> None:
    assert Codec.of(AllToAll()).takes_first_copy
    assert Codec.of(PS()).takes_first_copy
    assert Codec.of(AllToAll(), up=Int8(), merge=FirstCopy()).takes_first_copy
    assert not Codec.of(AllToAll(), up=Int8()).takes_first_copy
    assert not Codec.of(Ring()).takes_first_copy
    served = Codec.of(PS(), merge=ServerOpt(SGDOptimizer(0.1)))
    assert (served.takes, served.gives) == ("gradients", "parameters")
    delta = Codec.of(AllToAll(), send="delta", merge=ServerOpt(SGDOptimizer(0.1)))
    assert (delta.takes, delta.gives) == ("parameters", "parameters")
    assert (Codec.of(AllToAll()).takes, Codec.of(AllToAll()).gives) == (None, None)
    assert not Codec.of(Gossip(), send="weights").agrees
    assert not Codec.of(AllToAll(), send="weights", trigger=Every(3)).agrees
    assert all(kind.synchronous for kind in (served, delta))


Shipped = Codec.of(ShardedPS(smallest=1), up=ErrorFeedback(TopK(0.3) | Int8()), name="Shipped")


def test_a_composed_class_travels() -> None:
    """A user's own by value, those that ship by name."""
    inner = Codec.of(AllToAll(), up=lambda: QSGD(4, bucket=8), name="Inner", trigger=Warmup(1))
    for kind in (Shipped, inner):
        bundle = pack({"codec": kind})
        assert bundle.code
        arrived = load(bundle.objects, bundle.code)[0]["codec"]
        assert arrived is not kind
        assert arrived.__name__ == kind.__name__
        assert bits(run(arrived, IIDBlockAssignment(3))) == bits(run(kind, IIDBlockAssignment(3)))
    for name in parallel_sgd.codec.__all__:
        kind = getattr(parallel_sgd.codec, name)
        if isinstance(kind, type) and issubclass(kind, Codec) and kind is not Codec:
            bundle = pack({"codec": kind})
            assert not bundle.code, name
            assert load(bundle.objects, bundle.code)[0]["codec"] is kind


def test_codecs_are_found_by_name() -> None:
    known = known_classes(parallel_sgd.codec, Codec)
    for name in ("plain", "SyncPS", "FedAvg", "qsgd", "TernGrad", "LevelQuantizer", "ServerAdam", "DGC", "powersgd"):
        assert find_class(name, Codec, known, "--codec").__name__.lower() == name.lower()
    with pytest.raises(UnknownName, match=r"--codec 'topp' is unknown; did you mean 'TopK'\? Known: .*Plain.*TopK"):
        find_class("topp", Codec, known, "--codec")


def test_a_server_has_the_codecs_of_its_workers() -> None:
    served = Codec.of(PS(), up=Int8(), name="Served")
    default = parallel_sgd.codec.SyncPS
    assert choose_server_codecs(None, served, default, 2) == [served, served]
    assert choose_server_codecs(None, {1: served}, default, 2) == [default, served]
    assert choose_server_codecs(None, Plain, default, 2) == [default, default]
    assert choose_server_codecs({0: Plain}, served, default, 2) == [Plain, served]
    assert choose_server_codecs(Plain, served, default, 2) == [Plain, Plain]


def test_variables_are_found_by_the_names_of_layers() -> None:
    names = ["dense_1/kernel", "dense_1/bias", "dense_2/kernel"]
    one, two, three = (Codec.of(AllToAll(), name=name) for name in ("One", "Two", "Three"))
    assert by_variable({"dense_1": one, "dense_1/bias": two}, names) == {0: one, 1: two}
    assert by_variable({0: three, "dense_1": one, "dense_2": two}, names) == {0: three, 1: one, 2: two}
    assert by_variable(one, names) is one
    with pytest.raises(ValueError, match=r"'codec' names 'dense_9', but the model has the layers dense_1, dense_2"):
        by_variable({"dense_9": one}, names)


def test_whether_it_pays_to_encode() -> None:
    """codecs.md: compress iff (4n - payload) / bandwidth > encode + W' decode."""
    times = iter(range(100))
    found = estimate(parallel_sgd.codec.QSGD, 1024, 1000, workers=3, parameters={"bits": 4}, clock=lambda: float(next(times)))
    assert found == (512 + 8, 4096, 1.0, 3.0, (4096 - 520) / 1000)
    assert not found.pays
    assert found._replace(saved=4.1).pays
    with pytest.raises(TypeError, match=r"must be a class that Codec.of made"):
        estimate(Plain, 10, 1.0)
    with pytest.raises(TypeError, match="must be made of stages"):
        estimate(parallel_sgd.codec.PowerSGD, 10, 1.0)
    with pytest.raises(ValueError, match="'bandwidth' must be a number > 0"):
        estimate(parallel_sgd.codec.QSGD, 10, 0)


def test_arguments_of_patterns_and_triggers() -> None:
    with pytest.raises(ValueError, match=r"PS 'quorum' must be a number > 0 and <= 1, got 1\.5"):
        PS(quorum=1.5)
    with pytest.raises(ValueError, match="Delay 'batches' must be 1"):
        Delay(2)
    with pytest.raises(ValueError, match="Every 'batches' must be a positive integer, got 0"):
        Every(0)
    with pytest.raises(ValueError, match="Gossip 'matrix' must be square, symmetric"):
        Gossip([[0.5, 0.5], [0.4, 0.6]])
    with pytest.raises(ValueError, match="Gossip 'matrix' must be 'ring' or a matrix, got 'star'"):
        Gossip("star")
    with pytest.raises(ValueError, match="no weight_decay"):
        ServerOpt(SGDOptimizer(0.1, weight_decay=0.1))
    with pytest.raises(ValueError, match=r"Gossip 'matrix' is for 2 workers, the job has 3"):
        run(Codec.of(Gossip(np.full((2, 2), 0.5).tolist()), send="weights"), IIDBlockAssignment(3))
