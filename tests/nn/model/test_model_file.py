import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn import tensor_files
from nn.arrays import Array, Shape
from nn.model import Model, ModelFileError
from nn.value import Value
from tests.nn.model.models import Line, classifier, samples

from ...statements import covers


@covers("SUB-43")
def test_a_model_comes_back_whole(tmp_path: Path) -> None:
    """Structure, weights, loss and metrics."""
    model, (x, y) = classifier(seed=3), samples()
    model.save(tmp_path / "m.model")
    again = Model.load(tmp_path / "m.model")
    assert type(again) is nn.model.SequentialModel
    assert np.array_equal(again.store.values, model.store.values)
    assert again.evaluate(x, y) == model.evaluate(x, y)
    assert again.summary() == model.summary()
    assert again.seed == 3
    assert again.to_bytes() == model.to_bytes()


def test_a_model_that_is_not_compiled_stays_so() -> None:
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2)])
    model.setup(nn.loss.MSELoss())
    assert Model.from_bytes(model.to_bytes()).rule is None


def test_a_parallel_optimizer_survives() -> None:
    model = classifier()
    model.compile(nn.optimizer.OpContainer(nn.optimizer.PSGDOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.5,)))
    again = Model.from_bytes(model.to_bytes())
    assert again.op_type is nn.optimizer.PSGDOptimizer
    assert again.rule is not None
    assert again.rule.learn_rate == 0.5


def test_the_file_is_a_safetensors_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    model = classifier()
    model.save(tmp_path / "m.model")
    found = safetensors.load_file(tmp_path / "m.model")
    for variable in model.trainable_variables():
        assert np.array_equal(found[variable.name], variable.value)


class Cube(nn.activation.Activation):
    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.power(inputs[0], 3, out=out)

    reads_inputs = True

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, 3 * x * x, out=out)


class Scale(nn.layer.Layer, configured=True):
    def __init__(self, start: float = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        self.start = start

    def build(self, input_shape: Shape) -> None:
        self.factor = self.add_variable("factor", input_shape[1:], nn.initializer.Constant(self.start))

    def call(self, x: Value) -> Value:
        return x * self.factor


class NoLayer(nn.initializer.Zeros):
    def __init__(self, start: float, name: str) -> None:
        """Takes the arguments of `Scale`."""


def test_classes_of_ones_own_are_passed_by_the_caller() -> None:
    model = nn.model.SequentialModel([-1, 8], [Scale(2.5), nn.layer.Dense(3, activation=Cube())])
    model.setup(nn.loss.MSELoss())
    data = model.to_bytes()
    again = Model.from_bytes(data, custom_objects={"Scale": Scale, "Cube": Cube})
    x, _ = samples()
    assert np.array_equal(again.predict(x), model.predict(x))
    with pytest.raises(ModelFileError, match=r"class 'Cube' is not part of nn; pass it as custom_objects=\{'Cube'"):
        Model.from_bytes(data, custom_objects={"Scale": Scale})
    with pytest.raises(ModelFileError, match=r"SequentialModel 'layers' must be .*Layer"):
        Model.from_bytes(data, custom_objects={"Scale": NoLayer, "Cube": Cube})


def test_a_users_class_never_stands_for_a_built_in_one_and_the_other_way_round() -> None:
    class Dense(nn.layer.Dense):
        """Same name, another class."""

    model = nn.model.SequentialModel([-1, 8], [Dense(3)])
    model.setup(nn.loss.MSELoss())
    with pytest.raises(ModelFileError, match="class 'Dense' is not part of nn"):
        Model.from_bytes(model.to_bytes())
    assert type(Model.from_bytes(classifier().to_bytes(), {"Dense": Dense}).layers[0]) is nn.layer.Dense  # type: ignore[attr-defined]


def test_a_model_class_of_ones_own() -> None:
    model = Line()
    model.setup(nn.loss.MSELoss())
    x = np.ones((2, 1))
    model.predict(x)
    again = Model.from_bytes(model.to_bytes(), {"Line": Line})
    assert type(again) is Line
    assert np.array_equal(again.predict(x), model.predict(x))
    with pytest.raises(ModelFileError, match="class 'Line' is not part of nn"):
        Model.from_bytes(model.to_bytes())


def test_arguments_that_get_config_forgets_are_named_when_saving() -> None:
    class Needy(Line):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

    model = Needy(2)
    model.setup(nn.loss.MSELoss())
    model.predict(np.ones((1, 1)))
    with pytest.raises(ValueError, match=r"get_config\(\) of Needy: the constructor needs the argument 'factor'"):
        model.to_bytes()


def forged(change: Callable[[dict[str, Any], dict[str, Array]], object]) -> bytes:
    """Return the file of a compiled and trained classifier after a change of its configuration and tensors, sealed anew."""
    model, (x, y) = classifier(), samples()
    model.fit(x, y, epoch=1, verbose=0)
    values, metadata = tensor_files.parse(model.to_bytes())
    config = json.loads(metadata["config"])
    change(config, values)
    return tensor_files.dump(values, {"format": metadata["format"], "config": json.dumps(config)})


def layer_of(config: dict[str, Any], place: int) -> dict[str, Any]:
    found: dict[str, Any] = config["model"]["config"]["layers"][place]
    return found


def part(**changes: Any) -> dict[str, Any]:
    return {"whole_shape": [-1, 8], "begin": None, "end": None, **changes}


HUGE = 10**15
FLATTEN = {"class": "layer.Flatten", "config": {}}


@covers("SEC-13")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, v: c.pop("loss"), r"must have exactly the fields .*; wrong: \['loss'\]"),
        (lambda c, v: c.update(extra=1), r"wrong: \['extra'\]"),
        (lambda c, v: c.update(model=3), "'model' must have 'class' and 'config', got 3"),
        (lambda c, v: c["model"].update({"class": "os.system"}), "no class of nn is registered as 'os.system'"),
        (lambda c, v: c["model"].update({"class": "layer.Dense"}), "expected a class derived from Model"),
        (lambda c, v: c["model"].update({"class": ["a"]}), "no class of nn is registered"),
        (lambda c, v: c["model"]["config"].update(layers=3), r"SequentialModel 'layers' must be .*, got '3'"),
        (lambda c, v: c["model"]["config"].update(layers=[]), "SequentialModel has no layers"),
        (lambda c, v: c["model"]["config"].update(dtype="object"), "cannot be built|'dtype' must be"),
        (lambda c, v: layer_of(c, 0).update({"class": "layer.Layer"}), "no class of nn is registered as 'layer.Layer'"),
        (lambda c, v: layer_of(c, 0).update({"class": "loss.MSELoss"}), "MSELoss: the constructor has no argument"),
        (lambda c, v: layer_of(c, 0)["config"].update(units=0), "Dense 'units' must be a positive integer, got 0"),
        (lambda c, v: layer_of(c, 0)["config"].update(units="8"), "Dense 'units' must be .*int.*, got '8'"),
        (lambda c, v: layer_of(c, 0)["config"].update(units=True), "Dense 'units' must be .*int.*, got 'True'"),
        (lambda c, v: layer_of(c, 0)["config"].update(units=HUGE), r"'dense_1/kernel' must be float32 of shape \(8, 10+\)"),
        (lambda c, v: layer_of(c, 0)["config"].pop("units"), "Dense: the constructor needs the argument 'units'"),
        (lambda c, v: layer_of(c, 0)["config"].update(gamma=1), "Dense: the constructor has no argument 'gamma'"),
        (lambda c, v: layer_of(c, 0)["config"].update(activation=FLATTEN), "Dense 'activation' must be"),
        (lambda c, v: layer_of(c, 0)["config"].update(activation={"class": "x"}), "must have 'class' and 'config'"),
        (lambda c, v: layer_of(c, 0).update(config=[]), r"the configuration of Dense must be an object, got \[\]"),
        (lambda c, v: c.update(loss={"class": "metric.MeanSquareError", "config": {}}), "expected a class derived from Loss"),
        (lambda c, v: c.update(metrics={}), "'metrics' must be a list"),
        (lambda c, v: c.update(seed=-1), "'seed' must be an integer of at least 0, got -1"),
        (lambda c, v: c.update(seed="0"), "'seed' must be an integer"),
        (lambda c, v: c.update(dtype="float16"), "'dtype' must be float32 or float64, got float16"),
        (lambda c, v: c.update(dtype="nonsense"), "model file: .*nonsense"),
        (lambda c, v: c.update(dtype=7), "'dtype' must be a text, got 7"),
        (lambda c, v: c.update(dtype="float64"), "variable 'dense_1/kernel' must be float64"),
        (lambda c, v: c.update(input_shape=[-1, 9]), r"variable 'dense_1/kernel' must be float32 of shape \(9, 16\)"),
        (lambda c, v: c.update(input_shape=[8]), "must begin with -1"),
        (lambda c, v: c.update(epochs=1.5), "'epochs' must be an integer"),
        (lambda c, v: c.update(loss=None), "has no 'loss', which only a part of a model may lack"),
        (lambda c, v: c.update(part={}), "'part' must have 'whole_shape', 'begin' and 'end', got {}"),
        (lambda c, v: c.update(part=part(end=3)), "'part' must name layers"),
        (lambda c, v: c.update(part=part(whole_shape=[8])), "must begin with -1"),
        (lambda c, v: c.update(part=part(whole_shape=7)), "'whole_shape' must be a list of positive integers"),
        (lambda c, v: c.update(part=part(end="x")), "must be one of the layers dense_1, dense_2, got 'x'"),
        (lambda c, v: c.update(part=part(begin="dense_2")), "'dense_2' gives the output of the model"),
        (lambda c, v: c.update(part=part(begin="dense_1", end="dense_1")), "there is nothing between the layers"),
        (lambda c, v: c.update(part=part(end="dense_1")), "variable 'dense_2/(bias|kernel)' is not part of the model"),
        (lambda c, v: c.update(callbacks=[]), r"'callbacks' must hold the states of callbacks, got \[\]"),
        (lambda c, v: c.update(callbacks={"A": 1}), "'callbacks' must hold the states of callbacks"),
        (lambda c, v: c.update(callbacks={"A": {"b": "c"}}), "the state of the callback 'A' must hold numbers"),
        (lambda c, v: v.update({"callback:A:b": np.zeros(2)}), "variable 'callback:A:b' is not part of the model"),
        (lambda c, v: v.update({"history:Loss": np.zeros(2)}), "'history:Loss' must hold pairs of epoch and value"),
        (lambda c, v: v.update({"history:Loss": np.zeros((1, 2))}), "'history:Loss' must count epochs from 1, got 0.0"),
        (lambda c, v: v.update({"history:Loss": np.full((1, 2), np.nan)}), "'history:Loss' must count epochs from 1, got nan"),
        (lambda c, v: c.update(optimizer=[]), "'optimizer' must have 'class', 'rule' and 'state'"),
        (lambda c, v: c.update(optimizer=None), "holds the state of a rule, but no rule"),
        (lambda c, v: c["optimizer"].update({"class": "layer.Dense"}), "expected a class derived from IOptimizer"),
        (lambda c, v: c["optimizer"]["state"].update(step="x"), "the 'state' of a rule must hold numbers"),
        (lambda c, v: c["optimizer"]["state"].pop("step"), "ADAMOptimizer state must hold step"),
        (lambda c, v: c["optimizer"]["rule"]["config"].update(beta1=2), "'beta1' must be a number >= 0 and < 1, got 2"),
        (lambda c, v: v.pop("dense_1/bias"), "variable 'dense_1/bias' is missing"),
        (lambda c, v: v.update(other=np.zeros(2)), "variable 'other' is not part of the model"),
        (lambda c, v: v.update({"dense_1/bias": np.zeros(3, np.float32)}), r"'dense_1/bias' must be float32 of shape \(16,\)"),
        (lambda c, v: v.pop("rule:square"), "ADAMOptimizer state must hold step, momentum, square"),
        (lambda c, v: v.update({"rule:square": v["rule:square"][:-1]}), "'rule:square' does not fit the model's 195"),
        (
            lambda c, v: v.update({name: v[name][:-1] for name in ("rule:square", "rule:momentum")}),
            "'rule:(momentum|square)' does not fit the model's 195 parameters of float32",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(change: Callable[[dict[str, Any], dict[str, Array]], object], message: str) -> None:
    """a forged configuration gives an error that says what is wrong, and nothing large is allocated for it."""
    with pytest.raises(ModelFileError, match=message):
        Model.from_bytes(forged(change))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', "[" * 100_000, '"x"'])
def test_a_configuration_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ModelFileError, match="'config'"):
        Model.from_bytes(tensor_files.dump({}, {"format": "psgd.model/2", "config": text}))


@pytest.mark.parametrize("depth", [300, 600, 900, 5000])
def test_deep_nesting_is_refused(depth: int) -> None:
    values, metadata = tensor_files.parse(classifier().to_bytes())
    nested = "[" * depth + "]" * depth
    config = metadata["config"].replace('"layers":[', f'"layers":[{nested},', 1)
    assert nested in config
    with pytest.raises(ModelFileError):
        Model.from_bytes(tensor_files.dump(values, {"format": metadata["format"], "config": config}))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"'format' must be 'psgd\.model/2', got 'psgd\.tensors/1'"):
        Model.from_bytes(tensor_files.dump({"a": np.zeros(2)}, {}))
    with pytest.raises(ModelFileError):
        Model.from_bytes(struct.pack("<Q", 2) + b"{}")
    with pytest.raises(FileNotFoundError):
        Model.load(tmp_path / "missing.model")


def test_a_file_cut_short_or_changed_is_refused() -> None:
    data = classifier().to_bytes()
    for wrong in (data[:-1], data[:100], data + b"x", data[:-5] + b"\1" + data[-4:]):
        with pytest.raises(ModelFileError):
            Model.from_bytes(wrong)


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "short.model").write_bytes(b"12345")
    with pytest.raises(ModelFileError, match=r"^The model file /.*short\.model cannot be used: a tensor file has at least 8"):
        Model.load(tmp_path / "short.model")
