"""The names of their own that authors of codecs, models, rules and callbacks were seen to choose, and what became of each."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import nn
import parallel_sgd
from network.nodes import Address, NodeAssignment
from nn.extension import HiddenName, OverrideWarning
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.codec import Answering, CheckingPackets, Codec, PacketTraits, Plain, Tracking, Traits
from tests.contract.test_names_of_parts import OwnCodec, OwnRule, OwnServer, run_codec, run_server


def _mine(base: type[Any], **body: Any) -> type[Any]:
    return type(base)("Mine", (base,), {"__module__": __name__, **body})  # type: ignore[no-any-return]


def _keeping(base: type[Any], **attributes: Any) -> type[Any]:
    def __init__(self: Any, *args: Any) -> None:
        base.__init__(self, *args)
        for name, value in attributes.items():
            setattr(self, name, value)

    return _mine(base, __init__=__init__)


def _nothing(self: Any) -> None:
    return None


def _one(self: Any, x: Any) -> bool:
    return False


def _two(self: Any, a: Any, b: Any) -> None:
    return None


def _false(self: Any) -> bool:
    return False


FREE = {
    **{name: {name: _two} for name in ("record", "merge", "reset", "of", "state", "variable", "job", "fold")},
    **{
        f"{name} of another kind": {name: 3}
        for name in ("state", "record", "of", "merge", "job", "variable", "history", "buffer", "blocks", "steps", "memory")
    },
}
FLAGS = (
    "forms", "takes", "gives", "needs_server", "asynchronous", "synchronous", "takes_sums", "copies", "staleness", "serves",
    "agrees", "keeps_content", "keeps_type", "sends_finite", "reads_in_place", "by_arrival", "awaits_answer", "passes_on",
    "takes_first_copy", "takes_alike", "node_id",
)  # fmt: skip
TAKE_NOTHING = ("dispose", "is_done", "get_result", "missing_nodes", "missing_blocks", "do_something_to_save_yourself")
TAKE_SOMETHING = ("check", "answer", "receive_late", "load_state_dict", "joins", "set_result")
METHODS = {
    **dict.fromkeys(TAKE_NOTHING, _one),
    **dict.fromkeys(TAKE_SOMETHING, _nothing),
    **dict.fromkeys(FLAGS, _false),
    "state_dict": _two,
}
ATTRIBUTES: dict[str, object] = {
    "check": {}, "copies": {}, "staleness": 3, "forms": {}, "joins": 3, "dispose": [], "_result": {}, "node_id": 4, "takes": 5,
    "gives": [], "serves": 3, "agrees": "yes", "synchronous": 2, "answer": 1, "is_done": False, "state_dict": {},
    "missing_nodes": [], "receive_late": [],
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_a_name_that_happens_to_be_free_is_left_alone(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_codec(_mine(OwnCodec, **FREE[name])) == run_codec(OwnCodec)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_a_codec_that_hides_one_of_the_engine_is_refused(name: str) -> None:
    with pytest.raises(HiddenName, match=rf"^Mine\.{name}\b.* hides Codec\.{name}\b.*; rename it"):
        _mine(OwnCodec, **{name: METHODS[name]})


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_of_a_codec_that_hides_one_of_the_engine_is_refused(name: str) -> None:
    with pytest.raises(HiddenName, match=rf"^Mine\.{name}\b.* hides Codec\.{name}\b.*; rename it"):
        _keeping(OwnCodec, **{name: ATTRIBUTES[name]})(0)


def test_the_sentence_names_the_engine_s_own_call_and_the_remedy() -> None:
    with pytest.raises(HiddenName) as refused:
        _mine(OwnCodec, check=_nothing)
    assert str(refused.value) == (
        "Mine.check() hides Codec.check(content, like), which the engine calls; rename it, or let it take these arguments"
    )


def test_a_method_with_a_meaning_of_its_own_in_the_place_of_the_check_of_packets_is_told_of() -> None:
    with pytest.warns(OverrideWarning, match=r"^Mine\.check\(a, b\) takes the place of Codec\.check\(content, like\)"):
        _mine(OwnCodec, check=_two)


def test_a_server_s_names_are_refused_likewise() -> None:
    with pytest.raises(HiddenName, match=r"Mine\.answer\(\) hides Codec\.answer\(node\)"):
        _mine(OwnServer, answer=_nothing)
    with pytest.raises(HiddenName, match=r"Mine\.forms is an int and hides Codec\.forms"):
        run_server(_keeping(OwnServer, forms=3))


class Checked(OwnCodec, CheckingPackets, Tracking, Answering):
    """Overrides of what is offered, in other words than the base's."""

    traits = Traits(takes="gradients", packets=PacketTraits(((np.ndarray,),)))
    staleness = Counter({1: 2})

    def check(self, content: Any, like: Any) -> None:
        super().check(content, like)

    def is_done(self, *_more: object) -> bool:
        return self._result is not None

    def missing_blocks(self, deep: bool = False) -> tuple[int, ...]:
        return ()

    @property
    def copies(self) -> None:  # type: ignore[override]
        return None

    @staticmethod
    def answer(_node: int) -> None:  # type: ignore[override]
        return None


def test_overrides_that_the_engine_s_call_fits_are_taken() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind = _mine(Checked)
        assert run_codec(kind) == run_codec(OwnCodec)
        assert run_codec(_keeping(OwnCodec, staleness=Counter(), copies=(), takes=None)) == run_codec(OwnCodec)


def test_a_mixin_hides_as_the_class_itself_would() -> None:
    class Logs:
        def check(self) -> None: ...

    with pytest.raises(HiddenName, match=r"Mine\.check\(\) hides Codec\.check"):
        Codec.__class__("Mine", (Logs, OwnCodec), {"__module__": __name__})
    type(Codec)("Mine", (OwnCodec, Logs), {"__module__": __name__})  # where the mixin comes last the engine's counts


MODEL = {
    "labels": [], "check": {}, "measure": 3, "adopt": True, "metrics": {"a": 1}, "rule": "sgd", "op_type": "psgd",
    "dtype": "float32", "loss": 3, "store": {}, "graph": [], "optimizer": 3, "runner": 3, "built": True, "seed": "a",
}  # fmt: skip


@pytest.mark.parametrize("name", MODEL)
def test_an_attribute_of_a_model_that_hides_one_of_the_engine_is_refused(name: str) -> None:
    class Line(nn.model.Model):
        def __init__(self) -> None:
            super().__init__([-1, 4])
            setattr(self, name, MODEL[name])

        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(HiddenName, match=rf"^Line\.{name}\b.* hides Model\.{name}\b.*; rename it"):
        Line()


def test_a_rule_s_own_step_is_refused_where_it_was_counted_up_in_silence() -> None:
    for value in (0.1, 1):
        with pytest.raises(HiddenName, match=r"^Mine\.step .*hides IGradientDescent\.step"):
            _keeping(OwnRule, step=value)(0.1)
    with pytest.raises(HiddenName, match=r"^Mine\.delta is a float and hides IGradientDescent\.delta\(parameters, "):
        _keeping(OwnRule, delta=0.1)(0.1)


@pytest.mark.parametrize("name", ["folder", "params", "model"])
def test_what_fit_sets_on_a_callback_is_not_the_callback_s(name: str) -> None:
    with pytest.raises(HiddenName, match=rf"^Mine\.{name} hides Callback\.{name}, which the engine sets; rename it"):
        _keeping(nn.callback.Callback, **{name: "mine"})()
    with pytest.raises(HiddenName):
        _mine(nn.callback.Callback, **{name: "mine"})


def test_work_space_of_a_loss_and_variables_of_a_layer_are_seen_when_they_are_made() -> None:
    class Mean(nn.loss.Loss):
        def prepare(self, label: Any, shape: Any, dtype: Any) -> Any:
            return label

        def allocate(self, shape: Any, dtype: Any) -> None:
            super().allocate(shape, dtype)
            self.total = np.zeros(shape)  # type: ignore[method-assign, assignment]

        def each(self, label: Any, output: Any) -> Any:
            return output.mean(axis=1)

        def derive(self, label: Any, output: Any, share: Any, out: Any) -> None: ...

    class Scale(nn.layer.Layer):
        def build(self, input_shape: Any) -> None:
            self.variables = {"factor": 1.0}  # type: ignore[assignment]

        def call(self, x: Any) -> Any:
            return x

    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    model.compile("sgd", Mean())
    with pytest.raises(HiddenName, match=r"^Mean\.total is a ndarray and hides Loss\.total\(label, output\)"):
        model.fit(np.eye(4), np.eye(4), verbose=0)
    with pytest.raises(HiddenName, match=r"^Scale\.variables is a dict and hides Layer\.variables"):
        Scale()(nn.Placeholder([-1, 4]))


class LateSync(SynchronizedSGD):
    """Keeps something of its own under a name of the engine."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ready = {}  # type: ignore[method-assign, assignment]


class Staled(OwnCodec):
    """Keeps a number where the engine reads a mapping."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.staleness = 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"codec": Staled}, r"Staled\.staleness is an int and hides Codec\.staleness"),
        ({"sync_type": LateSync}, r"LateSync\.ready is a dict and hides SynchronizedSGD\.ready\(variable\)"),
    ],
    ids=["codec", "sync type"],
)
def test_a_job_is_refused_before_anything_is_sent(options: dict[str, Any], sentence: str) -> None:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    model.compile("sgd", "crossentropy_with_softmax")
    data = nn.dataset.ArrayDataset(np.eye(4), np.arange(4) % 3, test_fraction=0.5)
    nodes = NodeAssignment()
    nodes.add(0, Address("127.0.0.1", 1))  # no agent listens there
    with pytest.raises(HiddenName, match=sentence):
        parallel_sgd.ParallelSGD(model, data).parallel(nodes, epoch=1, block_size=1, **{"codec": Plain, **options})
