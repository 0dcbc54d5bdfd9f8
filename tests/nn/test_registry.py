"""What a model file may name: classes of nn of the kind that is asked for, and the user's own that are given."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import nn
from nn.model import Model
from nn.registry import _check_types
from nn.tensor_files import ModelFileError, dump, parse


class OwnTanh(nn.activation.Tanh):
    """A user's class."""


class Odd(nn.layer.Flatten):
    """A user's class, of which not all is data."""

    def get_config(self) -> dict[str, Any]:
        return {"name": object()}


def model_of(*layers: nn.layer.Layer) -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 2], list(layers))
    model.setup(nn.loss.MSELoss())
    return model


def test_models_within_keep_their_type_of_numbers() -> None:
    inner = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2)], dtype="float64")
    model = nn.model.SequentialModel([-1, 2], [inner], dtype="float64")
    model.setup(nn.loss.MSELoss())
    found = Model.from_bytes(model.to_bytes())
    x = np.ones((3, 2))
    assert np.array_equal(found.layers[0].predict(x), model.predict(x))


def test_names() -> None:
    """Of classes of nn by their kind, of others as the user's."""
    data = model_of(nn.layer.Dense(2, activation=OwnTanh())).to_bytes()
    text = parse(data)[1]["config"]
    assert '"layer.Dense"' in text and '"custom:OwnTanh"' in text and '"model.SequentialModel"' in text
    assert isinstance(Model.from_bytes(data, {"OwnTanh": OwnTanh}), nn.model.SequentialModel)


@pytest.mark.parametrize(
    "name",
    ["layer.Layer", "activation.Activation", "loss.Loss", "optimizer.IOptimizer", "optimizer.Exchange",
     "gradient_descent.schedule", "layer.core", "layer.__dict__", "model.Model", "model.History", "nn.layer", ""],
)  # fmt: skip
def test_a_file_names_nothing_but_classes_of_its_kinds(name: str) -> None:
    tensors, metadata = parse(model_of(nn.layer.Dense(2)).to_bytes())
    metadata.pop("sha256")
    forged = metadata["config"].replace('"layer.Dense"', json.dumps(name))
    assert forged != metadata["config"]
    with pytest.raises(ModelFileError, match=f"'{name}'"):
        Model.from_bytes(dump(tensors, {**metadata, "config": forged}))


def test_only_data_can_be_described() -> None:
    with pytest.raises(TypeError, match="a configuration holds numbers, texts, lists and parts of models, got object"):
        model_of(Odd()).to_bytes()


@pytest.mark.parametrize("name", ["model.History", "model.Model", "model.fragment", "layer.Dense", "DNN"])
def test_a_file_is_of_a_model_of_nn_or_of_the_class_that_loads_it(name: str) -> None:
    tensors, metadata = parse(model_of(nn.layer.Dense(2)).to_bytes())
    metadata.pop("sha256")
    forged = metadata["config"].replace('"model.SequentialModel"', json.dumps(name))
    assert forged != metadata["config"]
    with pytest.raises((ModelFileError, TypeError, ValueError), match=name):
        Model.from_bytes(dump(tensors, {**metadata, "config": forged}))


class Annotated(nn.layer.Flatten):
    """A user's class with an annotation that exists for type checkers only."""

    def __init__(self, times: int, other: Unknown = None, name: str | None = None) -> None:  # type: ignore[name-defined]  # noqa: F821
        super().__init__(name=name)
        self.times, self.other = times, other

    def get_config(self) -> dict[str, Any]:
        return {"times": self.times, "other": self.other, "name": None}


def test_arguments_are_checked_by_the_annotations_of_these_alone() -> None:
    """What the constructor has by itself needs no look, and an annotation of such an argument keeps no other from one."""
    content = model_of(Annotated(2), nn.layer.Dense(1)).to_bytes()
    assert Model.from_bytes(content, {"Annotated": Annotated}).layers[0].get_config()["times"] == 2
    tensors, metadata = parse(content)
    metadata.pop("sha256")
    forged = dump(tensors, {**metadata, "config": metadata["config"].replace('"times":2', '"times":"two"')})
    with pytest.raises(ModelFileError, match="Annotated 'times' must be <class 'int'>, got 'two'"):
        Model.from_bytes(forged, {"Annotated": Annotated})
    tensors, metadata = parse(model_of(nn.layer.Dense(1)).to_bytes())
    metadata.pop("sha256")
    for true, wrong in (("true", "1"), ('"use_bias":true', '"use_bias":"yes"')):
        assert true in metadata["config"]
        with pytest.raises(ModelFileError, match="must be"):
            Model.from_bytes(dump(tensors, {**metadata, "config": metadata["config"].replace(true, wrong)}))


def test_classes_for_users_have_no_virtual_subclasses() -> None:
    """The engine calls what a base defines, so that a class which does not derive from it is refused in words."""

    class Alike:
        """Has what a layer has."""

    with pytest.raises(TypeError, match="Layer has no virtual subclasses: Alike must derive from it"):
        nn.layer.Layer.register(Alike)
    assert not isinstance(Alike(), nn.layer.Layer)
    assert isinstance(nn.layer.Dense(1), nn.layer.Layer)


class Lazy:
    """A constructor with annotations that are made when they are read, as those of every function are since Python 3.14."""

    __globals__ = globals()

    def __call__(self, layer: object, times: object = None) -> None:
        """Do nothing."""

    @property
    def __annotations__(self) -> dict[str, object]:  # type: ignore[override]
        raise NameError("name 'Unknown' is not defined")


def test_annotations_that_cannot_be_evaluated_check_nothing() -> None:
    """They may name what exists for type checkers only. Before Python 3.14 an object has to stand for such a function."""
    kind = type("Kind", (), {"__init__": Lazy()})
    _check_types(kind, {"times": "two"})
