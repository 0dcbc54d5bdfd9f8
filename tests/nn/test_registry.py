import pytest

import nn
from nn import registry
from nn.model import Model
from tests.nn.model.models import Line, classifier


class OwnTanh(nn.activation.Tanh):
    """A user's class."""


class OwnOptimizer(nn.optimizer.GDOptimizer):
    """A user's class."""


def test_names() -> None:
    assert registry.class_name(nn.layer.Dense) == "layer.Dense"
    assert registry.class_name(nn.gradient_descent.ADAMOptimizer) == "gradient_descent.ADAMOptimizer"
    assert registry.class_name(nn.model.SequentialModel) == "model.SequentialModel"
    assert registry.class_name(OwnTanh) == "custom:OwnTanh"


def test_base_classes_cannot_be_named_by_a_file() -> None:
    for base in (nn.layer.Layer, nn.activation.Activation, nn.loss.Loss, nn.optimizer.IOptimizer):
        assert registry.class_name(base) == f"custom:{base.__name__}"
    for name in ("layer.Layer", "activation.Activation", "loss.Loss", "optimizer.IOptimizer", "optimizer.Exchange"):
        with pytest.raises(registry.UnknownClassError, match=f"no class of nn is registered as '{name}'"):
            registry.find_class(name, object, {})


def test_a_file_names_nothing_but_classes_of_its_kinds() -> None:
    names = [
        "gradient_descent.schedule",
        "gradient_descent.Cosine",
        "layer.core",
        "layer.__dict__",
        "model.DNN",
        "nn.layer",
        "",
    ]
    for name in names:
        with pytest.raises(registry.UnknownClassError):
            registry.find_class(name, object, {})
    for name in ("model.History", "model.Model", "model.fragment", "layer.Dense", "DNN"):
        assert registry.find_model(name) is None
    assert registry.find_model("model.DNN") is nn.model.DNN


def test_the_classes_that_must_travel_are_found_wherever_they_are() -> None:
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2, activation=OwnTanh())])
    model.setup(nn.loss.MSELoss())
    assert registry.custom_classes(model, model.loss) == {"OwnTanh": OwnTanh}
    assert registry.custom_classes(Line(), OwnOptimizer, nn.optimizer.GDOptimizer) == {
        "Line": Line,
        "OwnOptimizer": OwnOptimizer,
    }
    assert registry.custom_classes(classifier()) == {}
    loaded = Model.from_bytes(model.to_bytes(), registry.custom_classes(model))
    assert isinstance(loaded, nn.model.SequentialModel)


def test_only_data_can_be_described() -> None:
    class Odd(nn.layer.Flatten):
        def get_config(self) -> dict[str, object]:
            return {"name": object()}

    with pytest.raises(TypeError, match="a configuration holds numbers, texts, lists and parts of models, got object"):
        registry.describe(Odd())
