"""Attributes of nn's objects after their construction: set with effect, or refused."""

import copy
import inspect

import numpy as np
import pytest

import nn
from nn.arguments import Configurable
from nn.layer import Dense

X = np.random.default_rng(0).random((9, 8))


def made() -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 8], [Dense(8), Dense(4)])
    model.compile("sgd", "mse")
    return model


def loads_equal(model: nn.model.Model) -> bool:
    return bool(np.array_equal(nn.model.Model.from_bytes(model.to_bytes()).predict(X), model.predict(X)))


def test_layers_are_a_list_until_setup_and_a_tuple_after_it() -> None:
    model = nn.model.SequentialModel([-1, 8], [Dense(8), Dense(4), Dense(2)])
    model.layers.pop()
    model.layers.insert(1, Dense(3))
    model.compile("sgd", "mse")
    assert model.predict(X).shape == (9, 4)
    assert isinstance(model.layers, tuple)
    assert len(model.layers) == 3
    assert loads_equal(model)
    with pytest.raises(AttributeError, match="SequentialModel 'layers' is an argument of the constructor"):
        model.layers = []


def test_a_layer_keeps_the_arguments_that_its_model_was_built_from() -> None:
    model = made()
    with pytest.raises(AttributeError, match="Dense 'activation' is an argument of the constructor and cannot be set"):
        model.layers[1].activation = nn.activation.ReLU()
    with pytest.raises(AttributeError, match="Dense 'units'"):
        model.layers[1].units = 3
    with pytest.raises(AttributeError, match="Dense has no attribute 'kernel' that can be set"):
        model.layers[1].kernel = None
    with pytest.raises(AttributeError, match="did you mean 'trainable'"):
        model.layers[1].trainabel = False
    with pytest.raises(AttributeError, match="has no attribute 'kernel_regularizer'"):
        model.layers[1].kernel_regularizer = "l2"
    assert loads_equal(model)


def test_a_model_is_frozen_as_a_whole_before_setup_only() -> None:
    model = nn.model.SequentialModel([-1, 8], [Dense(8), Dense(4)])
    model.trainable = False
    model.compile("sgd", "mse")
    assert not model.trainable
    before = model.get_weights()
    model.fit(X, np.zeros((9, 4)), epochs=1, verbose=0)
    assert all(map(np.array_equal, before, model.get_weights()))
    assert not nn.model.Model.from_bytes(model.to_bytes()).trainable
    other = made()
    assert other.trainable
    with pytest.raises(ValueError, match="SequentialModel 'trainable' cannot be set after setup"):
        other.trainable = False
    with pytest.raises(TypeError, match="'trainable' must be an instance of bool"):
        other.trainable = "no"


def test_the_rate_of_a_rule_has_two_names_and_its_other_numbers_are_fixed() -> None:
    model = made()
    assert model.rule is not None
    model.rule.learning_rate = 0
    assert model.rule.learn_rate == 0
    before = model.get_weights()
    model.fit(X, np.zeros((9, 4)), epochs=1, verbose=0)
    assert all(map(np.array_equal, before, model.get_weights()))
    model.optimizer.learning_rate = 0.5
    assert model.optimizer.learning_rate == model.rule.learn_rate == 0.5
    with pytest.raises(AttributeError, match="SGDOptimizer 'clip_norm' is an argument"):
        model.rule.clip_norm = 1.0
    with pytest.raises(AttributeError, match="SequentialModel has no attribute 'loss_weights'"):
        model.loss_weights = [1, 2]
    with pytest.raises(AttributeError, match="'dtype'"):
        model.dtype = np.dtype("float64")


def test_classes_of_a_user_keep_their_own_names() -> None:
    class Mine(nn.layer.Dense):
        def build(self, input_shape: object) -> None:
            super().build(input_shape)
            self.seen = 1

    layer = Mine(4)
    layer.note = "mine"
    model = nn.model.SequentialModel([-1, 8], [layer])
    model.compile("sgd", "mse")
    layer.seen += 1
    layer.note = "still"
    assert copy.deepcopy(layer).note == "still"
    with pytest.raises(AttributeError, match="Mine 'units'"):
        layer.units = 2


def public_classes() -> list[type]:
    packages = (nn.activation, nn.callback, nn.gradient_descent, nn.initializer, nn.layer, nn.loss, nn.metric, nn.model)
    found = {getattr(package, name) for package in packages for name in package.__all__}
    return sorted((each for each in found if inspect.isclass(each) and issubclass(each, Configurable)), key=str)


EXAMPLES = {
    "AveragePool": (2,), "Checkpoint": ("x.psgd",), "Constant": (), "Conv1D": (2, 3), "Conv2D": (2, 3), "Dense": (2,),
    "Dropout": (0.5,), "EarlyStopping": ("Loss",), "Embedding": (3, 2), "GRU": (2,), "LSTM": (2,), "MaxPool": (2,),
    "ModelCheckpoint": ("x.psgd",), "MultiHeadAttention": (2, 2), "Reshape": ([2],), "SimpleRNN": (2,), "Permute": ([1],),
    "LearningRateScheduler": (float,), "CSVLogger": ("x.csv",), "Conv1DTranspose": (2, 3), "SequentialModel": ([-1, 2],),
}  # fmt: skip


@pytest.mark.parametrize(
    "cls", [each for each in public_classes() if not inspect.isabstract(each)], ids=lambda each: each.__name__
)
def test_every_argument_of_every_public_class_is_refused_or_has_a_setter(cls: type) -> None:
    try:
        item = cls(*EXAMPLES.get(cls.__name__, ()))
    except TypeError as error:
        assert "required" in str(error), error
        pytest.skip("needs parts of others")
    if isinstance(item, nn.layer.Layer):
        item.built = True  # before, its arguments may be set: they have their effect in `build`
    arguments = [name for name in list(inspect.signature(cls).parameters) if name not in ("args", "keywords")]
    for name in arguments:
        found = inspect.getattr_static(cls, name, None)
        if (isinstance(found, property) and found.fset is not None) or name in ("seed", "dtype", "input_shape"):
            continue
        with pytest.raises(AttributeError, match=f"'{name}' is an argument of the constructor"):
            setattr(item, name, 1)
    with pytest.raises(AttributeError, match="has no attribute 'quite_unknown' that can be set"):
        item.quite_unknown = 1


def test_clear_goes_back_to_the_rate_that_compile_was_given() -> None:
    model, fresh = made(), made()
    lower = nn.callback.ReduceOnPlateau("Loss", patience=1, min_delta=1.0)
    y = np.ones((9, 4))
    model.fit(X, y, epochs=5, callbacks=[lower], verbose=0)
    model.clear()
    assert model.fit(X, y, epochs=3, verbose=0)["Loss"] == fresh.fit(X, y, epochs=3, verbose=0)["Loss"]


def test_a_wrong_monitor_is_refused_before_the_first_batch() -> None:
    model = made()
    before = model.get_weights()
    with pytest.raises(ValueError, match="the results are Loss, val_Loss; did you mean 'val_Loss'"):
        model.fit(
            X, np.ones((9, 4)), validation_split=0.2, epochs=1, verbose=0, callbacks=[nn.callback.EarlyStopping("val_loss")]
        )
    assert all(map(np.array_equal, before, model.get_weights()))
    assert model.epochs_trained == 0


def test_arguments_have_the_names_of_keras_too() -> None:
    rules = nn.gradient_descent
    for rule in (
        rules.SGDOptimizer,
        rules.ADAMOptimizer,
        rules.ADAMWOptimizer,
        rules.RMSPropOptimizer,
        rules.MomentumOptimizer,
    ):
        assert rule(learning_rate=0.5, global_clipnorm=2.0).get_config() == rule(0.5, clip_norm=2.0).get_config()
        with pytest.raises(TypeError, match="must be given once"):
            rule(learning_rate=0.5, learn_rate=0.5)
    trained = made().fit(X, np.ones((9, 4)), validation_split=0.2, epochs=2, verbose=0)
    assert trained.history == {"Loss": trained["Loss"], "val_Loss": trained["val_Loss"]}
    assert nn.layer.Conv2D(filters=3).filters == 3
    assert nn.layer.MaxPool(pool_size=3).get_config() == nn.layer.MaxPool(3).get_config()
    assert nn.callback.ReduceOnPlateau("Loss", min_lr=0.1).min_rate == 0.1
