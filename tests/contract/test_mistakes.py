"""What a newcomer does wrong at an extension point ends at once, in a sentence with class, expectation, and what came."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import parallel_sgd
from nn.extension import OverrideWarning, slips
from parallel_sgd.batch_sync import FirstK, ISyncType, SynchronizedSGD, SyncSetting
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import AllToAll, Trigger
from parallel_sgd.codec.pipeline import Chain, GradientStage, Pipeline, Sparsifier, Stage
from parallel_sgd.profiles import AbsBlockAssignment

X, Y = np.ones((6, 4), np.float32), np.ones((6, 2), np.float32)


def fitted(*layers: Any, loss: Any = "mse", rule: Any = "sgd", metrics: Any = ()) -> Any:
    model = nn.model.SequentialModel([-1, 4], [*layers, nn.layer.Dense(2)])
    model.compile(rule, loss, list(metrics))
    model.fit(X, Y, epochs=1, verbose=0)
    return model


def job(**settings: Any) -> Any:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(2)])
    model.setup("mse")
    with parallel_sgd.in_process(2) as nodes:
        return parallel_sgd.ParallelSGD(model, nn.dataset.ArrayDataset(X, Y, X, Y)).parallel(
            nodes, epoch=1, block_size=3, verbose=0, **settings
        )


def made(base: type, **body: Any) -> Any:
    """A class `Mine` with these attributes."""
    return type(base)("Mine", (base,), {"__module__": __name__, **body})


class OwnLoss(nn.loss.Loss):
    """A complete one, of which rows change a method."""

    def prepare(self, label: Any, shape: Any, dtype: Any) -> Any:
        return label.astype(dtype)

    def each(self, label: Any, output: Any) -> Any:
        return ((output - label) ** 2).mean(axis=1)

    def derive(self, label: Any, output: Any, share: Any, out: Any) -> None:
        out[:] = share * (output - label)


class OwnMetric(nn.metric.Metric):
    name = "own"

    def reset(self) -> None:
        self.seen = 0

    def update(self, label: Any, prediction: Any) -> None:
        self.seen += 1

    def result(self) -> Any:
        return self.seen


class OwnRule(nn.gradient_descent.IGradientDescent):
    def increment(self, value: Any, gradient: Any, out: Any, *slots: Any) -> None:
        np.multiply(gradient, -self.rate, out=out)


class OwnStage(Stage):
    def side_bytes(self, n: int) -> int:
        return 0

    def carried(self, n: int) -> int:
        return n

    def encode(self, x: Any, writer: Any, draw: Any) -> Any:
        return x

    def parse(self, reader: Any, n: int, draw: Any) -> Any:
        return None, n

    def decode(self, values: Any, side: Any, n: int) -> Any:
        return values


@dataclass(frozen=True)
class NoMakes(SyncSetting):
    staleness = 0
    k: int = 2


class Plainly(SynchronizedSGD):
    """No more than its base."""


@dataclass(frozen=True)
class NoRoom(SyncSetting):
    staleness = 0
    makes = Plainly
    k: int = 2


class NoDataclass(SyncSetting):
    staleness = 0
    makes = Plainly


def kept(value: int = 3, *, keeps: bool = True, **settings: Any) -> Any:
    """A layer with an argument, saved."""

    class Mine(nn.layer.Layer, **settings):
        def __init__(self, units: int = 3) -> None:
            super().__init__()
            if keeps:
                self.units = units

        def call(self, x: Any) -> Any:
            return x * 2

    return fitted(Mine(value)).to_bytes()


def own_rule(**body: Any) -> Any:
    return fitted(rule=made(OwnRule, **body)(0.1))


def own_loss(**body: Any) -> Any:
    return fitted(loss=made(OwnLoss, **body)())


def own_metric(**body: Any) -> Any:
    return fitted(metrics=[made(OwnMetric, **body)()])


def own_layer(**body: Any) -> Any:
    return fitted(made(nn.layer.Layer, **body)())


def own_stage(base: Any = OwnStage, **body: Any) -> Any:
    """One packet there and back, of the stage alone and in a chain."""
    draw = parallel_sgd.codec.pipeline.Draw(0, 0, 0, 0, 0)
    stage = made(base, **body)()
    for pipeline in (Pipeline(Chain([stage])), Pipeline(stage)):
        pipeline.decode(pipeline.encode(np.ones(8, np.float32), draw), (8,), draw)


def own_sync(**body: Any) -> Any:
    return job(sync_type=made(SynchronizedSGD, **body), ssgd_timeout_limit=200)


def dealing(dealt: Any) -> Any:
    return made(AbsBlockAssignment, deal=lambda self, node_count, redundancy: dealt)(2)


def nothing(*_: Any) -> None:
    """A constructor that forgets that of its base, and a method that forgets its 'return'."""


def nothing_of_codecs(self: Any, codecs: Any, timeout: Any, clock: Any, names: Any) -> None:
    """The same with the arguments of a sync type."""


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "layer: no super().__init__()": (
        lambda: own_layer(__init__=nothing, call=lambda self, x: x),
        r"Mine.__init__\(\) must call super\(\).__init__\(\)",
    ),
    "layer: a slip of the key": (
        lambda: own_layer(cal=lambda self, x: x),
        r"Mine must define call\(\), which its base class leaves to it; it has cal\(\)",
    ),
    "layer: a function of NumPy that asks the value": (
        lambda: own_layer(call=lambda self, x: np.max(x)),
        "Mine 'mine_1': a function of NumPy takes arrays, and got a value of the graph; nn.function has those of values",
    ),
    "layer: arguments in another order": (
        lambda: own_layer(build=lambda self, shape: self.add_variable((4, 3), "kernel"), call=lambda self, x: x),
        "Mine 'mine_1': Variable 'shape' must be a list of positive integers, got 'kernel'",
    ),
    "layer: an argument that is not kept": (
        lambda: kept(keeps=False, configured=True),
        r"Mine.__init__\(\) must keep the argument 'units' in an attribute of that name, as configured=True says of it",
    ),
    "layer: an argument that a file would lose": (
        lambda: kept(4),
        r"get_config\(\) of Mine must return 'units', which its constructor was given, got no argument; class "
        r"Mine\(.., configured=True\) tells that self.units is it",
    ),
    "loss: one number": (
        lambda: own_loss(each=lambda self, label, output: output.mean()),
        r"Mine.each\(\) must return the loss of each sample, an array of shape \(6,\), got float32",
    ),
    "loss: a number for each output": (
        lambda: own_loss(each=lambda self, label, output: output),
        r"Mine.each\(\) must return the loss of each sample, an array of shape \(6,\), got float32 of shape \(6, 2\)",
    ),
    "loss: no labels": (
        lambda: own_loss(prepare=lambda self, label, shape, dtype: None),
        r"Mine.prepare\(\) must return the labels as an array, got NoneType",
    ),
    "loss: a gradient that is returned": (
        lambda: own_loss(derive=lambda self, label, output, share, out: share * output),
        r"Mine.derive\(\) must write its result into 'out', float32 of shape \(6, 2\), and return nothing, got float32",
    ),
    "loss: a gradient that is not written": (
        lambda: own_loss(derive=nothing),
        r"Mine.derive\(\) must write its result into 'out', float32 of shape \(6, 2\), and has written nothing; out\[:\]",
    ),
    "loss: work arrays without those of the base": (
        lambda: own_loss(allocate=lambda self, shape, dtype: None),
        r"Mine.allocate\(\) must call super\(\).allocate\(shape, dtype\)",
    ),
    "loss: the method of Keras": (
        lambda: made(nn.loss.Loss, call=lambda self, label, output: output)(),
        r"Mine must define derive\(\), each\(\), prepare\(\), which its base class leaves to it; call\(\) is each\(\) here",
    ),
    "loss of differences: of another shape": (
        lambda: fitted(
            loss=made(
                nn.loss.DifferenceLoss,
                measure=lambda self, difference, work, out: np.copyto(out, difference),
                slope=lambda self, difference, share, out: None,
            )()
        ),
        r"Mine.measure\(\): could not broadcast input array from shape \(6,2\) into shape \(6,\)",
    ),
    "metric: no number": (lambda: own_metric(result=nothing), r"Mine.result\(\) must return a number, got NoneType"),
    "metric: several numbers": (
        lambda: own_metric(result=lambda self: np.ones(3)),
        r"Mine.result\(\) must return a number, got float64 of shape \(3,\)",
    ),
    "metric: no name": (
        lambda: made(nn.metric.Metric, reset=nothing, update=lambda self, label, prediction: None, result=lambda self: 1.0)(),
        r"Mine must tell its key in the results: name = '..' in the body of the class",
    ),
    "metric: arguments in another order": (
        lambda: own_metric(update=lambda self, prediction, label: None),
        r"Mine.update\(prediction, label\) has the arguments of Metric.update\(label, prediction\) in another order, and the "
        "engine gives them by place",
    ),
    "rule: no super().__init__()": (
        lambda: made(OwnRule, __init__=nothing)(),
        r"Mine.__init__\(\) must call super\(\).__init__\(learn_rate\)",
    ),
    "rule: an increment that is returned": (
        lambda: own_rule(increment=lambda self, value, gradient, out, *slots: gradient),
        r"Mine.increment\(\) must write its result into 'out', float32 of shape \(10,\), and return nothing, got float32",
    ),
    "rule: an increment that is not written": (
        lambda: own_rule(increment=lambda self, value, gradient, out, *slots: None),
        r"Mine.increment\(\) must write its result into 'out', float32 of shape \(10,\), and has written nothing; out",
    ),
    "rule: other slots": (
        lambda: own_rule(slots=("mean", "square"), increment=lambda self, value, gradient, out, mean: None),
        r"Mine.increment\(value, gradient, out, mean\) is called with 5 arguments, which it must take",
    ),
    "rule: parameters that are changed": (
        lambda: own_rule(increment=lambda self, value, gradient, out, *slots: np.copyto(value, gradient)),
        r"Mine.increment\(\): assignment destination is read-only; it may change 'out' and its slots, and nothing else",
    ),
    "rule: a slot by the name of the count": (
        lambda: own_rule(slots=("step",)),
        r"Mine.slots must not name 'step', which the state has, got \('step',\)",
    ),
    "stage: nothing": (
        lambda: own_stage(GradientStage, transform=nothing),
        r"Mine.transform\(\) must return a row of 8 float32, got NoneType",
    ),
    "stage: another type": (
        lambda: own_stage(GradientStage, transform=lambda self, x, draw: x.astype("i8")),
        r"Mine.transform\(\) must return a row of 8 float32, got int64 of shape \(8,\)",
    ),
    "stage: more than it says": (
        lambda: own_stage(carried=lambda self, n: 1),
        r"Mine.encode\(\) must return a row of at most 1 float32, got float32 of shape \(8,\)",
    ),
    "stage: side information alone": (
        lambda: own_stage(parse=lambda self, reader, n, draw: None),
        r"Mine.parse\(\) must return side information and how many values the next stage carries, got NoneType",
    ),
    "stage: a shorter vector": (
        lambda: own_stage(decode=lambda self, values, side, n: values[:-1]),
        r"Mine.decode\(\) must return a row of 8 float32, got float32 of shape \(7,\)",
    ),
    "stage: no super().__init__()": (
        lambda: own_stage(
            Sparsifier,
            __init__=nothing,
            side_bytes=OwnStage.side_bytes,
            carried=OwnStage.carried,
            encode=OwnStage.encode,
            parse=OwnStage.parse,
        ),
        r"Mine.__init__\(\) must call super\(\).__init__\(\)",
    ),
    "sync type: no super().__init__()": (
        lambda: own_sync(__init__=nothing_of_codecs),
        r"Mine.__init__\(\) must call super\(\).__init__\(codecs, timeout, clock, names\)",
    ),
    "sync type: no waits": (
        lambda: own_sync(wait=lambda self, variable: None),
        r"Mine.wait\(\) must yield waits, got NoneType; 'yield from super\(\).wait\(variable\)' yields those of its base",
    ),
    "sync type: no result": (
        lambda: own_sync(get=lambda self, variable: None),
        r"Mine.get\(\) must give variable 0 \(dense_1/kernel\) an array of floats of shape \(4, 2\), got NoneType",
    ),
    "sync type: never done": (
        lambda: own_sync(is_done=lambda self, variable: None),
        r"Plain has set a result, but Mine.is_done\(\) does not say so",
    ),
    "sync type: a base": (
        lambda: job(sync_type=made(ISyncType)),
        "'sync_type' must be a complete class derived from ISyncType",
    ),
    "setting: the class": (
        lambda: job(sync_type=FirstK),
        r"'sync_type' must be an object of FirstK, got the class; write FirstK\(..\)",
    ),
    "setting: nothing that it makes": (
        lambda: job(sync_type=NoMakes()),
        "NoMakes.makes must be the sync type that it stands for, got None",
    ),
    "setting: fields that the class does not take": (
        lambda: job(sync_type=NoRoom()),
        r"Plainly.__init__\(\) must take codecs, timeout, clock, names and the fields of NoRoom, k, got \(codecs",
    ),
    "setting: no dataclass": (
        lambda: job(sync_type=NoDataclass()),
        r"NoDataclass must be a frozen dataclass: write @dataclass\(frozen=True\) above it",
    ),
    **{
        f"assignment: {dealt!r}": (
            lambda dealt=dealt: dealing(dealt),
            rf"Mine.deal\(\) must return a list of block ids for each worker, such as .*, got {re.escape(repr(dealt))}",
        )
        for dealt in (None, [0, 1], {0: [0], 1: [1]}, [[0.0], [1.0]], ["ab", "c"])
    },
    "assignment: no super().__init__()": (
        lambda: made(AbsBlockAssignment, __init__=nothing, deal=lambda self, node_count, redundancy: [[0], [1]])(),
        r"Mine.__init__\(\) must call super\(\).__init__\(node_count\)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_in_a_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, said = MISTAKES[name]
    with pytest.raises((TypeError, ValueError, TimeoutError), match=said):
        call()


@pytest.mark.parametrize(
    ("base", "slip", "meant"),
    [
        (nn.layer.Layer, "biuld", "build"),
        (nn.metric.Metric, "merg", "merge"),
        (OwnRule, "beginstep", "begin_step"),
        (Trigger, "fire", "fires"),
        (SynchronizedSGD, "isdone", "is_done"),
        (nn.callback.Callback, "on_epoch_edn", "on_epoch_end"),
    ],
)
def test_a_slip_in_the_name_of_a_method_that_need_not_be_there_is_told(base: type, slip: str, meant: str) -> None:
    with pytest.warns(OverrideWarning, match=rf"^Mine.{slip}\(\) is called by nothing here; did you mean {meant}\(\)\?$"):
        made(base, **{slip: lambda self, *rest: None})


@pytest.mark.parametrize("name", ["rebuild", "calls", "merges", "updates", "resets", "units", "kernel", "scale", "steps"])
def test_an_ordinary_name_is_no_slip(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for base in (nn.layer.Layer, OwnMetric, OwnRule, OwnLoss, OwnStage, SynchronizedSGD, Codec):
            made(base, **{name: lambda self: None})


@pytest.mark.parametrize("name", ["updated", "updater", "merged", "derived", "prepared", "taken", "ready"])
def test_another_form_of_a_word_is_no_slip(name: str) -> None:
    hooks = ["update", "merge", "derive", "prepare", "take", "read"]
    assert slips(nn.metric.Metric, {name: lambda self: None}, hooks) == {}


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (nn.activation.Activation, "padding"),
        (nn.activation.Activation, "inner"),
        (nn.activation.Activation, "split"),
        (nn.dataset.MNIST, "file"),
        (nn.dataset.TokenText, "context"),
        (nn.callback.ModelCheckpoint, "name"),
    ],
)
def test_a_word_of_its_own_is_no_slip(base: type, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(base, **{name: lambda self: None})


class Refused(ValueError):
    """Error of an author."""


@pytest.mark.parametrize("kind", [Refused, UnicodeError, np.linalg.LinAlgError])
def test_an_error_of_the_authors_own_kind_is_raised_as_it_is(kind: type[Exception]) -> None:
    """In the first batch as in any other: a program may catch it."""

    def derive(self: object, *_: object) -> None:
        raise kind("mine")

    with pytest.raises(kind, match=r"^mine$"):
        fitted(loss=made(OwnLoss, derive=derive)())


def test_a_first_result_that_is_no_number_has_been_written() -> None:
    """As 0 / 0: numbers that are none are told as they are, and not as a method that writes nothing."""

    def increment(self: object, value: Any, gradient: Any, out: Any) -> None:
        with np.errstate(invalid="ignore"):
            np.divide(gradient, 0, out=out)

    values = np.ones(4, np.float32)
    made(OwnRule, increment=increment)(0.1).update(values, np.zeros(4, np.float32))
    assert np.isnan(values).all()


def test_own_parts_that_are_right_train() -> None:
    """The look at their first results changes none of them."""
    trained = fitted(loss=OwnLoss(), rule=OwnRule(0.1), metrics=[OwnMetric()])
    again = fitted(loss=OwnLoss(), rule=nn.gradient_descent.SGDOptimizer(0.1))
    assert trained.store.values.tobytes() == again.store.values.tobytes()
    up = Codec.of(AllToAll(), up=made(GradientStage, transform=lambda self, x, draw: x)())
    assert job(codec=up, gd_type="sgd").models[0].store.values.shape == (10,)


def test_a_model_of_ones_own_is_saved_with_what_its_base_takes() -> None:
    class Own(nn.model.Model):
        def call(self, x: Any) -> Any:
            return nn.layer.Dense(2)(x)

    model = Own([-1, 4])
    model.setup("mse")
    again = nn.model.Model.from_bytes(model.to_bytes(), custom_objects={"Own": Own})
    assert again.store.values.tobytes() == model.store.values.tobytes()


@pytest.mark.parametrize("keywords", [{}, {"configured": True}])
def test_a_layer_of_ones_own_keeps_the_name_that_it_was_given(keywords: Any) -> None:
    class Named(nn.layer.Layer, **keywords):
        def call(self, x: Any) -> Any:
            return x * 2

    model = fitted(Named(name="doubled"))
    again = nn.model.Model.from_bytes(model.to_bytes(), custom_objects={"Named": Named})
    assert again.layers[0].name == "doubled"
