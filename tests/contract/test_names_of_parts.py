"""Every public name of every base class, given to an ordinary subclass in each way: refused in words, or everything works.

So does everything under the commonest names of other libraries' classes, which are no base's: given all at once, since that
needs one run for each way.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network.nodes import Address
from nn.extension import Extension, HiddenName, OverrideWarning, claimed_names
from nn.optimizer import GDOptimizer, OpContainer
from parallel_sgd.batch_sync import ISyncType, SynchronizedSGD
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, PacketTraits, Traits, netEncapsulation
from parallel_sgd.codec.compose import AllToAll, LocalRule, MergeRule, Trigger
from parallel_sgd.codec.interfaces import Packets
from parallel_sgd.codec.pipeline import Stage
from parallel_sgd.engine.callbacks import JobCallbacks
from parallel_sgd.nodes import nodes_from
from parallel_sgd.profiles import AbsBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob
from parallel_sgd.writers import Writer, WriterCallback
from rpc.launch import Launcher
from tests.contract.common_names import COMMON

Kind = type[Any]


def _arrays(job: ArrayJob) -> object:
    return {node: [[each.tolist() for each in batch] for batch in batches] for node, batches in job.run().results.items()}


# ---- ordinary classes of users, and what shows that they work


class OwnCodec(Codec):
    """The mean over the blocks of all workers."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.got: list[Any] = []

    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        self._take(block_weight.content)
        return netEncapsulation(
            GlobalSettings.get_default().get_adversary(block_weight.block_id), (block_weight.content.copy(),)
        )

    def receive_blocks(self, content: Any) -> Packets:
        self._take(content[0])
        return None

    def _take(self, array: Any) -> None:
        self.got.append(np.array(array))
        if len(self.got) == 2:
            self.set_result((self.got[0] + self.got[1]) / 2)
            self.got = []


def run_codec(kind: Kind) -> object:
    return _arrays(ArrayJob(IIDBlockAssignment(2), codec=kind))


class OwnWorker(Codec):
    """Sends its gradient to the server and takes the mean from there."""

    traits = Traits(needs_server=True)

    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        return netEncapsulation(-2, (block_weight.block_id, block_weight.content))

    def receive_blocks(self, content: Any) -> Packets:
        self.set_result(content)
        return None


class OwnServer(Codec):
    """The mean over two workers, sent to both."""

    traits = Traits(serves=True, packets=PacketTraits(((int, np.ndarray),)))

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.got: dict[int, Any] = {}

    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        return None

    def receive_blocks(self, content: Any) -> Packets:
        self.got[content[0]] = np.array(content[1])
        if len(self.got) < 2:
            return None
        mean = (self.got[0] + self.got[1]) / 2
        self.got = {}
        return netEncapsulation([0, 1], mean)


def run_server(kind: Kind) -> object:
    return _arrays(ArrayJob(IIDBlockAssignment(2), codec=OwnWorker, server=kind))


class OwnStage(Stage):
    """Sends a half and doubles it."""

    linear = True
    unbiased = True

    def side_bytes(self, n: int) -> int:
        return 0

    def carried(self, n: int) -> int:
        return n

    def encode(self, x: Any, writer: Any, draw: Any) -> Any:
        return np.float32(0.5) * x

    def parse(self, reader: Any, n: int, draw: Any) -> tuple[Any, int]:
        return None, n

    def decode(self, values: Any, side: Any, n: int) -> Any:
        return np.float32(2) * values


def run_stage(kind: Kind) -> object:
    return _arrays(ArrayJob(IIDBlockAssignment(2), codec=Codec.of(AllToAll(), up=kind())))


class OwnMerge(MergeRule):
    """The sum."""

    def combine(self, parts: Any, weights: Any, round_: Any) -> Any:
        return np.add.reduce(list(parts))


def run_merge(kind: Kind) -> object:
    return _arrays(ArrayJob(IIDBlockAssignment(2), codec=Codec.of(AllToAll(), merge=kind())))


class OwnTrigger(Trigger):
    """Exchanges in the batches 0, 1 and 3."""

    def fires(self, batch: int) -> bool:
        return batch in (0, 1, 3)

    @property
    def always(self) -> bool:
        return False


def run_trigger(kind: Kind) -> object:
    return _arrays(ArrayJob(IIDBlockAssignment(2), codec=Codec.of(AllToAll(), send="weights", trigger=kind())))


class OwnLocal(LocalRule):
    """Sends twice its value."""

    sends = ("gradient", "weights")

    def outgoing(self, value: Any, dense: bool) -> Any:
        return value * 2


def run_local(kind: Kind) -> object:
    return _arrays(ArrayJob(IIDBlockAssignment(2), codec=Codec.of(AllToAll(), send="weights", local=kind())))


class OwnSync(SynchronizedSGD):
    """Counts the batches."""

    def begin(self, step: tuple[int, int]) -> None:
        super().begin(step)


def run_sync(kind: Kind) -> object:
    return _arrays(ArrayJob(IIDBlockAssignment(2), sync_type=kind))


class OwnAssignment(AbsBlockAssignment):
    """Two blocks for each worker."""

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        return [[2 * node, 2 * node + 1] for node in range(node_count)]


def run_assignment(kind: Kind) -> object:
    return _arrays(ArrayJob(kind(2)))


def _model(*layers: nn.layer.Layer, loss: Any = None, metrics: Any = (), rule: Any = None) -> nn.model.Model:
    model = nn.model.SequentialModel([-1, 4], [*layers, nn.layer.Dense(3)])
    model.compile(rule or nn.gradient_descent.ADAMOptimizer(0.1), loss or "mse", metrics)
    return model


def _trained(model: nn.model.Model, custom: Kind, **options: Any) -> object:
    """What training, evaluating, predicting and a model file give."""
    x, y = np.eye(4, dtype=np.float32), np.ones((4, 3), np.float32)
    history = nn.model.Model.fit(model, x, y, epoch=2, batch_size=2, verbose=0, sample_weight=np.arange(4.0), **options)
    again = nn.model.Model.from_bytes(model.to_bytes(), {custom.__name__: custom})
    nn.model.Model.fit(again, x, y, epoch=1, batch_size=2, verbose=0)
    found = [nn.model.Model.evaluate(model, x, y), nn.model.Model.predict(again, x).tolist()]
    return history["Loss"], found, [each.tolist() for each in model.get_weights()]


class OwnRule(nn.gradient_descent.IGradientDescent):
    """Momentum."""

    slots = ("v",)

    def increment(self, value: Any, gradient: Any, out: Any, *slots: Any) -> None:
        slots[0][:] = 0.9 * slots[0] + gradient
        np.multiply(slots[0], -self.rate, out=out)


def run_rule(kind: Kind) -> object:
    return _trained(_model(rule=OpContainer(GDOptimizer, kind, (0.1,))), kind)


class OwnLayer(nn.layer.Layer):
    """Scales its input."""

    def build(self, input_shape: Any) -> None:
        self.factor = self.add_variable("factor", input_shape[-1:], nn.initializer.Constant(1.0))

    def call(self, x: Any) -> Any:
        return x * self.factor


def run_layer(kind: Kind) -> object:
    layer = kind()
    model = _model(layer)
    return _trained(model, kind), layer.name, repr(layer)


class OwnLoss(nn.loss.Loss):
    """The mean over the outputs, squared."""

    def prepare(self, label: Any, shape: Any, dtype: Any) -> Any:
        return np.asarray(label, dtype)

    def each(self, label: Any, output: Any) -> Any:
        return (output**2).mean(axis=1)

    def derive(self, label: Any, output: Any, share: Any, out: Any) -> None:
        np.multiply(output, 2 * share / output.shape[1], out=out)


def run_loss(kind: Kind) -> object:
    return _trained(_model(loss=kind()), kind)


class OwnMetric(nn.metric.Metric):
    """The bias."""

    name = "bias"

    def reset(self) -> None:
        self.sum, self.samples = 0.0, 0

    def update(self, label: Any, prediction: Any) -> None:
        self.sum += float(np.subtract(prediction, label).sum())
        self.samples += len(label)

    def result(self) -> float:
        return self.sum / self.samples


def run_metric(kind: Kind) -> object:
    return _trained(_model(metrics=[kind()]), kind)


class OwnModel(nn.model.Model):
    """A line."""

    def __init__(self) -> None:
        super().__init__([-1, 4])
        self.w, self.b = nn.Variable([4, 3]), nn.Variable([3])

    def call(self, x: Any) -> Any:
        return x @ self.w + self.b


def run_model(kind: Kind) -> object:
    model = kind()
    nn.model.Model.compile(model, "sgd", "mse")
    front = model._outline_graph((-1, 4))
    return _trained(model, kind), len(front.variables)


class OwnCallback(nn.callback.Callback):
    """Counts epochs."""

    def __init__(self) -> None:
        self.epochs = 0

    def on_epoch_end(self, epoch: int, logs: Any) -> None:
        self.epochs += 1

    def state_dict(self) -> Any:
        return {"epochs": self.epochs}

    def load_state_dict(self, state: Any) -> None:
        self.epochs = int(state.get("epochs", 0))


def run_callback(kind: Kind) -> object:
    callback, model = kind(), _model()
    found = _trained(model, kind, callbacks=[callback])
    callbacks = JobCallbacks([callback], model, model.optimizer, Path("folder"), {})
    callbacks.begin(0, {"epoch": 1})
    callbacks.epoch_begin(0)
    callbacks.epoch_end(0, {"Loss": 1.0})
    callbacks.end({"Loss": 1.0})
    callbacks.close()
    return found, callback.epochs, callback._job_folder, callback._fit_params


class OwnWriter:
    """Collects what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def start(self, config: Any) -> None:
        self.told.append(dict(config))

    def log(self, step: int, values: Any) -> None:
        self.told.append((step, dict(values)))

    def finish(self, status: str) -> None:
        self.told.append(status)


def run_writer(kind: Kind) -> object:
    writer = kind()
    _trained(_model(), kind, callbacks=[WriterCallback(writer)])
    return writer.told


class OwnLauncher(Launcher):
    """Agents that somebody else has started."""

    lasting = True
    key_file = None

    def start(self, count: int) -> list[Address]:
        return [Address("127.0.0.1", 7000 + place) for place in range(count)]


def run_launcher(kind: Kind) -> object:
    with nodes_from(kind(), 2) as nodes:
        return nodes.worker_ids, [nodes[node] for node in nodes.worker_ids], nodes.key_file


class OwnOptimizer(GDOptimizer):
    """Halves the gradients."""

    def finish_batch(self) -> Iterator[int]:
        self.store.gradients *= 0.5
        return super().finish_batch()


def run_optimizer(kind: Kind) -> object:
    return _trained(_model(rule=OpContainer(kind, nn.gradient_descent.SGDOptimizer, (0.1,))), kind)


@dataclass(frozen=True)
class Row:
    """A kind of part: the class that users derive from, an ordinary class, and a run that shows whether it works."""

    base: Kind
    own: Kind
    run: Callable[[Kind], object]
    arguments: int = 0  # of the constructor, beside the object


ROWS = {
    "Codec": Row(Codec, OwnCodec, run_codec),
    "Codec on a server": Row(Codec, OwnServer, run_server),
    "Stage": Row(Stage, OwnStage, run_stage),
    "MergeRule": Row(MergeRule, OwnMerge, run_merge),
    "Trigger": Row(Trigger, OwnTrigger, run_trigger),
    "LocalRule": Row(LocalRule, OwnLocal, run_local),
    "Rule": Row(nn.gradient_descent.IGradientDescent, OwnRule, run_rule),
    "SyncType": Row(ISyncType, OwnSync, run_sync),
    "Assignment": Row(AbsBlockAssignment, OwnAssignment, run_assignment),
    "Layer": Row(nn.layer.Layer, OwnLayer, run_layer),
    "Loss": Row(nn.loss.Loss, OwnLoss, run_loss),
    "Metric": Row(nn.metric.Metric, OwnMetric, run_metric),
    "Model": Row(nn.model.Model, OwnModel, run_model),
    "Callback": Row(nn.callback.Callback, OwnCallback, run_callback),
    "Optimizer": Row(nn.IOptimizer, OwnOptimizer, run_optimizer),
    "Writer": Row(Writer, OwnWriter, run_writer),
    "Launcher": Row(Launcher, OwnLauncher, run_launcher),
}
_GENERAL = ("data", "state", "reset", "history", "log_line", "job", "variable", "of", "merge", "count", "buffer", "blocks")
"""More names that an author may well choose, of which most are no base's."""

_HERE = object()


def _names(row: Row) -> list[str]:
    if not isinstance(row.base, Extension):
        return _public(row.base)
    setters = [name for name in _public(row.base) if isinstance(inspect.getattr_static(row.base, name, None), property)]
    return sorted({name for name in [*claimed_names(row.base), *setters, *_uncalled(row.base)] if not name.startswith("_")})


def _uncalled(base: Kind) -> list[str]:
    """Hooks of other libraries, of which a class that has them is warned."""
    return [name for each in base.__mro__ if "_claims" in vars(each) for name in vars(each)["_claims"].uncalled]


def _public(base: Kind) -> list[str]:
    return sorted(name for name in {*dir(base), *_annotated(base)} if not name.startswith("_"))


def _annotated(base: Kind) -> list[str]:
    """What objects have of their own, as the classes say."""
    return [name for each in base.__mro__ for name in inspect.get_annotations(each)]


CASES = [(kind, name) for kind, row in ROWS.items() for name in _names(row)]
_DONE: dict[str, str] = {}


def _works(row: Row) -> str:
    if row.own.__name__ not in _DONE:
        _DONE[row.own.__name__] = _shown(row, _derived(row, {}))
    return _DONE[row.own.__name__]


def _shown(row: Row, kind: Kind) -> str:
    return repr(row.run(kind))


def _derived(row: Row, body: dict[str, Any]) -> Kind:
    own: Any = row.own
    return type(own)("Mine", (own,), {"__module__": __name__, **body})  # type: ignore[no-any-return]


def _with_attributes(row: Row, names: Iterable[str], value: object) -> dict[str, Any]:
    @functools.wraps(row.own.__init__)
    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        row.own.__init__(self, *args, **keywords)
        for name in names:
            setattr(self, name, value)

    return {"__init__": __init__}


def _methods() -> dict[str, Any]:
    def alone(self: Any) -> int:
        return 7

    def pair(self: Any, left: Any, right: Any) -> int:
        return 7

    def many(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> int:
        return 7

    return {"method": alone, "method of two": pair, "method of eight": many}


def _uses(row: Row, *names: str) -> Iterator[tuple[str, dict[str, Any], object]]:
    """Yield each way in which a subclass may have names of its own: how, what stands in its body, what its objects have."""
    yield from ((how, dict.fromkeys(names, method), _HERE) for how, method in _methods().items())
    for value in (3, {}, "text"):
        yield f"class attribute {value!r}", dict.fromkeys(names, value), value
        yield f"attribute {value!r}", _with_attributes(row, names, value), value


def _is_override(row: Row, name: str, body: dict[str, Any], value: object) -> bool:
    """Whether what stands there may be meant in the place of the base's: a method that takes as many arguments, or a value of
    the type that the base has, which the author may set."""
    theirs = inspect.getattr_static(row.own, name, _HERE)
    mine = body.get(name, value)
    if isinstance(mine, (int, str, dict)):
        told = next((each[name] for each in map(inspect.get_annotations, row.own.__mro__) if name in each), "")
        if isinstance(theirs, property):
            told = inspect.get_annotations(theirs.fget)["return"]
        return any(word in str(told) for word in {int: ("int", "float"), str: ("str", "KeyFile"), dict: ("dict",)}[type(mine)])
    if inspect.isfunction(mine) and isinstance(theirs, (staticmethod, classmethod)):
        return False
    if inspect.isfunction(mine) and inspect.isfunction(theirs):
        needed = [each for each in inspect.signature(theirs).parameters.values() if each.default is each.empty]
        takes = len(inspect.signature(mine).parameters)
        return takes == len([each for each in needed if each.kind is not each.VAR_POSITIONAL]) or takes > len(needed)
    return False


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.share(4)
def test_a_name_is_refused_in_words_or_everything_works(kind: str, name: str) -> None:
    row = ROWS[kind]
    wrong = []
    for how, body, value in _uses(row, name):
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", OverrideWarning)
                outcome = _shown(row, _derived(row, body))
        except HiddenName as error:
            if not _is_sentence(str(error), name):
                wrong.append(f"{how}: {error}")
        except Exception as error:
            # one that takes what the base took before is called, with a warning
            if not told and not _is_override(row, name, body, value) and not _names_both(str(error), name):
                wrong.append(f"{how}: {type(error).__name__}: {error}")
        else:
            if outcome != _works(row) and not told and not _is_override(row, name, body, value):
                wrong.append(f"{how}: another result, and nothing was said")
    assert not wrong, "\n".join(wrong)


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ROWS)
def test_common_names_that_no_base_claims_leave_everything_as_it_is(kind: str) -> None:
    row = ROWS[kind]
    free = sorted({*COMMON, *_GENERAL, *_public(row.base)} - {*_names(row)})
    assert len(free) > 250 and _works(row)
    wrong = [how for how, body, _ in _uses(row, *free) if not _leaves_all(row, body)]
    alone = [name for name in free if wrong and not all(_leaves_all(row, body) for _, body, _ in _uses(row, name))]
    assert not wrong, f"{', '.join(wrong)}; of these names by themselves: {', '.join(alone)}"


def _leaves_all(row: Row, body: dict[str, Any]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", OverrideWarning)
            return _shown(row, _derived(row, body)) == _works(row)
    except Exception:
        return False


def _names_both(text: str, name: str) -> bool:
    """Whether it is what a setter, or a check of what was given, says of a class and a name."""
    return "Mine" in text and (f"Mine '{name}' must be" in text or f"lacks {name}" in text)


def _is_sentence(text: str, name: str) -> bool:
    with suppress(ValueError):
        what, _, remedy = text.partition("; ")
        return f"Mine.{name}" in what and " hides " in what and remedy.startswith("rename it")
    return False
