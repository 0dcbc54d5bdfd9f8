"""The names of their own that authors of codecs, models, rules and callbacks were seen to choose, and what became of each."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
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
from tests.statements import covers


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
    "metrics": {"a": 1}, "rule": "sgd", "op_type": "psgd", "dtype": "float32", "loss": 3, "store": {}, "graph": [],
    "optimizer": 3, "runner": 3, "built": True, "seed": "a",
}  # fmt: skip


class Line(nn.model.Model):
    """A model with attributes of an author's own."""

    def __init__(self, **own: Any) -> None:
        super().__init__([-1, 4])
        for name, value in own.items():
            setattr(self, name, value)
        self.w = nn.Variable([4, 3])

    def call(self, x: Any) -> Any:
        return x @ self.w


@pytest.mark.parametrize("name", MODEL)
def test_an_attribute_of_a_model_that_hides_one_of_the_engine_is_refused(name: str) -> None:
    with pytest.raises(HiddenName, match=rf"^Line\.{name}\b.* hides Model\.{name}\b.*; rename it"):
        Line(**{name: MODEL[name]})


def _fitted(model: nn.model.Model, **options: Any) -> Any:
    return model.fit(np.eye(4), np.ones((4, 3)), epoch=3, batch_size=2, verbose=0, **options)["Loss"]


def test_ordinary_words_of_a_model_are_the_author_s() -> None:
    own = {"labels": [], "check": {}, "measure": 3, "adopt": True, "checked": 1, "prepare": "x", "origin": (0, 0), "part": None}
    plain, mine = Line(), Line(**own)
    for model in (plain, mine):
        model.compile("adam", "mse")
    assert _fitted(plain) == _fitted(mine) and {name: getattr(mine, name) for name in own} == own


def test_a_rule_may_have_a_step_and_a_delta_of_its_own() -> None:
    for name, value in {"step": 0.1, "delta": 0.1}.items():
        rule, expected, w, v = _keeping(OwnRule, **{name: value})(0.1), OwnRule(0.1), np.ones(3), np.ones(3)
        for _ in range(3):
            rule.update(w, np.ones(3))
            expected.update(v, np.ones(3))
        assert w.tolist() == v.tolist() and getattr(rule, name) == value
        assert rule.state_dict()["step"] == expected.state_dict()["step"] == expected.step == 3
    adam = _keeping(nn.gradient_descent.ADAMOptimizer, step="up")()
    adam.update(w, np.ones(3))
    nn.gradient_descent.ADAMOptimizer().update(v, np.ones(3))
    assert w.tolist() == v.tolist()


def test_a_rule_s_step_may_be_set_where_it_shows_the_engine_s() -> None:
    rule = nn.gradient_descent.ADAMOptimizer()
    rule.step = 4
    assert rule.state_dict()["step"] == rule.step == 4
    with pytest.raises(ValueError, match="ADAMOptimizer 'step' must be an integer of at least 0, got -1"):
        rule.step = -1


def test_a_callback_may_have_a_folder_and_params_of_its_own(tmp_path: Path) -> None:
    class Mine(nn.callback.Callback):
        def __init__(self) -> None:
            self.folder, self.params, self.heard = "mine", ["a"], []  # type: ignore[assignment]

        def on_epoch_end(self, epoch: int, logs: Any) -> None:
            self.heard.append((self.folder, self.params))

    class Plain(nn.callback.Callback):
        def on_epoch_end(self, epoch: int, logs: Any) -> None:
            heard.append((self.folder, self.params["batch_size"]))

    heard: list[Any] = []
    mine, logger, model = Mine(), nn.callback.CSVLogger("log.csv"), Line()
    logger.folder = tmp_path
    model.compile("sgd", "mse")
    _fitted(model, callbacks=[mine, Plain(), logger])
    assert mine.heard == 3 * [("mine", ["a"])] and heard == 3 * [(Path(), 2)]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 4
    with pytest.raises(HiddenName, match=r"^Mine\.model hides Callback\.model, which the engine sets; rename it"):
        _keeping(nn.callback.Callback, model="mine")()


class Mean(nn.loss.Loss):
    """A loss with work space of its own under the name of a method of before."""

    def prepare(self, label: Any, shape: Any, dtype: Any) -> Any:
        return label

    def allocate(self, shape: Any, dtype: Any) -> None:
        super().allocate(shape, dtype)
        self.total = np.zeros(shape)

    def each(self, label: Any, output: Any) -> Any:
        return output.mean(axis=1)

    def derive(self, label: Any, output: Any, share: Any, out: Any) -> None:
        out[:] = share / output.shape[1]


def test_a_loss_may_have_a_total_and_a_layer_variables_of_its_own() -> None:
    class Scale(nn.layer.Layer):
        def build(self, input_shape: Any) -> None:
            self.variables = {"factor": self.add_variable("factor", input_shape[-1:])}  # type: ignore[assignment]

        def call(self, x: Any) -> Any:
            return x * self.variables["factor"]  # type: ignore[call-overload]

    model = nn.model.SequentialModel([-1, 4], [Scale(), nn.layer.Dense(3)])
    model.compile("sgd", Mean())
    losses = _fitted(model)
    assert losses[0] > losses[-1] and model.store.variables[0].name == "scale_1/factor"
    assert [each.local_name for each in nn.layer.Dense(3)(nn.Placeholder([-1, 4])).layers[0].variables] == ["kernel", "bias"]


def test_an_override_by_a_former_name_is_taken_and_told_of_once() -> None:
    class Faster(Mean):
        def allocate(self, shape: Any, dtype: Any) -> None:
            nn.loss.Loss.allocate(self, shape, dtype)

    def total(self: Any, label: Any, output: Any) -> float:
        return 7.0 + float(super(Faster, self).total(label, output))

    with pytest.warns(OverrideWarning, match=r"^Mine\.total is taken for Loss\.sum_losses, which it was; rename it$") as told:
        loss = _mine(Faster, total=total)()
        loss.allocate((2, 1), np.dtype(float))
        assert loss.value(np.zeros(2), np.ones((2, 1))) == (7 + 2) / 2
    assert len(told) == 1


def test_a_rule_that_overrides_delta_goes_on_and_calls_that_of_its_base() -> None:
    with pytest.warns(
        OverrideWarning, match=r"^(Half|Quarter)\.delta is taken for \w+\.write_change, which it was; rename it$"
    ) as told:

        class Half(nn.gradient_descent.SGDOptimizer):
            def delta(self, parameters: Any, gradients: Any, out: Any) -> None:
                super().delta(parameters, gradients, out)
                out *= 0.5

        class Quarter(Half):
            def delta(self, parameters: Any, gradients: Any, out: Any) -> None:
                super().delta(parameters, gradients, out)
                out *= 0.5

        out = np.zeros(2)
        for kind, factor in ((Half, 0.5), (Quarter, 0.25)):
            kind(1.0).write_change(np.zeros(2), np.ones(2), out)
            assert out.tolist() == [-factor, -factor]
            kind(1.0).delta(np.zeros(2), np.ones(2), out)
            assert out.tolist() == [-factor, -factor]
    assert len(told) == 2


def test_a_configuration_that_is_no_dict_is_told_of_with_its_class() -> None:
    def get_config(self: Any) -> Any:
        return 7

    model = Line()
    model.compile("sgd", _mine(Mean, get_config=get_config)())
    with pytest.raises(TypeError, match=r"^Mine\.get_config\(\) must return a dict of constructor arguments, got 7$"):
        model.to_bytes()


def test_a_call_by_a_former_name_works_and_names_the_present_one() -> None:
    out = np.zeros(2)
    with pytest.warns(DeprecationWarning, match=r"^SGDOptimizer\.delta\(\) is now write_change\(\)$") as told:
        nn.gradient_descent.SGDOptimizer(1.0).delta(np.zeros(2), np.ones(2), out)
    assert out.tolist() == [-1, -1] and told[0].filename == __file__
    model = Line()
    model.compile("sgd", "mse")
    with pytest.warns(DeprecationWarning, match=r"^Line\.check\(\) is now _take_samples\(\)$"):
        assert model.check(np.eye(4)).shape == (4, 4)


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


@covers("RES-11")
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


def test_every_model_of_ours_can_be_derived_from() -> None:
    """The module of `Transformer` does not postpone annotations; its class of a variable was read as a text."""
    for name in nn.model.__all__:
        kind = getattr(nn.model, name)
        if isinstance(kind, type) and issubclass(kind, nn.model.Model):
            assert issubclass(type("Mine", (kind,), {"__module__": __name__}), kind)
    with pytest.raises(HiddenName, match=r"Mine.positions is an int and hides Transformer.positions, .* as Variable"):
        type("Mine", (nn.model.Transformer,), {"__module__": __name__, "positions": 3})
