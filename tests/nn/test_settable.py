"""Attributes of nn's objects after their construction: set with effect, or refused."""

import copy
import inspect
import types

import numpy as np
import pytest

import nn
from nn.arguments import Settled
from nn.layer import Dense
from tests.statements import covers

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
    for change in ("pop", "append", "insert", "clear"):
        with pytest.raises(AttributeError, match=rf"after setup\(\), so there is no {change}\(\).* build another model"):
            getattr(model.layers, change)
    assert loads_equal(model)
    with pytest.raises(AttributeError, match="SequentialModel 'layers' is an argument of the constructor"):
        model.layers = []


@covers("DAT-11")
def test_a_layer_keeps_the_arguments_that_its_model_was_built_from() -> None:
    model = made()
    with pytest.raises(AttributeError, match="Dense 'activation' is an argument of the constructor and cannot be set"):
        model.layers[1].activation = nn.activation.ReLU()
    with pytest.raises(AttributeError, match="Dense 'units'"):
        model.layers[1].units = 3
    with pytest.raises(AttributeError, match="Dense 'kernel' cannot be set: the graph was built"):
        model.layers[1].kernel = None
    with pytest.raises(AttributeError, match="did you mean 'trainable'"):
        model.layers[1].trainabel = False
    with pytest.raises(AttributeError, match="Dense 'kernel_regularizer' is an argument of the constructor"):
        model.layers[1].kernel_regularizer = "l2"
    assert loads_equal(model)


@covers("DAT-11")
def test_a_model_is_frozen_as_a_whole() -> None:
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
    other.trainable = False
    with pytest.raises(ValueError, match=r"another compile\(\) or setup\(\): 'dense_1/kernel' was frozen after the last one"):
        other.fit(X, np.zeros((9, 4)), epochs=1, verbose=0)
    with pytest.raises(TypeError, match="'trainable' must be an instance of bool"):
        other.trainable = "no"


@covers("DAT-11")
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


@covers("DAT-11")
def test_parts_of_a_users_model_are_fixed_by_setup_also_within_lists() -> None:
    class Block(nn.layer.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = {"first": Dense(4)}

        def call(self, x: nn.Value) -> nn.Value:
            return self.inner["first"](x)

    class Mine(nn.model.Model):
        def __init__(self) -> None:
            super().__init__([-1, 8])
            self.blocks = [Block(), Block()]
            self.head = Dense(2)
            self.note = "mine"

        def call(self, x: nn.Value) -> nn.Value:
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    def ready() -> Mine:
        model = Mine()
        model.compile("sgd", "mse")
        return model

    model = ready()
    model.note = "still"
    with pytest.raises(AttributeError, match="Mine 'head' cannot be set: the graph was built from what it holds"):
        model.head = Dense(3)
    with pytest.raises(AttributeError, match="Mine 'head' cannot be deleted"):
        del model.head
    with pytest.raises(AttributeError, match="Block 'inner' cannot be set"):
        model.blocks[0].inner = {}
    back = nn.model.Model.from_bytes(model.to_bytes(), {"Mine": Mine})
    assert np.array_equal(back.predict(X), model.predict(X))
    model.blocks.pop()
    for use in (model.to_bytes, lambda: model.fit(X, np.zeros((9, 2)), verbose=0), lambda: copy.deepcopy(model).to_bytes()):
        with pytest.raises(ValueError, match="Mine 'blocks' held 2 layers and variables at setup"):
            use()
    model = ready()
    model.blocks[1].inner["first"] = Dense(4)
    with pytest.raises(ValueError, match="Block 'block_2' 'inner' held 1 layers"):
        model.to_bytes()


@covers("DAT-11")
def test_lists_of_arguments_cannot_be_changed_in_place() -> None:
    early = nn.model.SequentialModel([-1, 8], [Dense(8), Dense(4)])
    layers = early.layers
    early.compile("sgd", "mse", ["relative_error"])
    layers.pop()
    with pytest.raises(ValueError, match="SequentialModel 'layers' was changed in place"):
        early.to_bytes()
    model = made()
    assert isinstance(model.metrics, tuple)
    for name, remedy in {
        "metrics": "setup",
        "loss": "setup",
        "rule": "compile",
        "optimizer": "compile",
        "op_type": "compile",
    }.items():
        with pytest.raises(AttributeError, match=f"SequentialModel '{name}' cannot be set; call {remedy}"):
            setattr(model, name, None)
    with pytest.raises(AttributeError, match="GDOptimizer 'rule' cannot be set"):
        model.optimizer.rule = nn.gradient_descent.SGDOptimizer()
    with pytest.raises(ValueError, match="Dense 'dense_1' is part of a model that is set up"):
        model.layers[0].name = "other"
    with pytest.raises(AttributeError, match="Dense 'units' is an argument of the constructor and cannot be deleted"):
        del model.layers[0].units


def test_arguments_of_a_layer_are_checked_when_they_are_set_before_setup() -> None:
    layer = Dense(8, name="first")
    layer.trainable = False
    layer.units, layer.activation = 3, "relu"
    assert (layer.units, layer.name, layer.trainable) == (3, "first", False)
    assert isinstance(layer.activation, nn.activation.ReLU)
    with pytest.raises(ValueError, match="Dense 'units' must be a positive integer"):
        layer.units = -3
    model = nn.model.SequentialModel([-1, 8], [layer])
    model.compile("sgd", "mse")
    assert model.predict(X).shape == (9, 3)
    assert loads_equal(model)


def packages() -> list[types.ModuleType]:
    return [getattr(nn, name) for name in KINDS] + [nn.dataset.transforms]


KINDS = (
    "activation", "callback", "constraint", "dataset", "gradient_descent", "initializer", "layer", "loss", "metric", "model",
    "optimizer", "regularizer",
)  # fmt: skip


def public_classes() -> list[type]:
    found = {getattr(package, name) for package in packages() for name in package.__all__}
    kept = {each for each in found if inspect.isclass(each) and issubclass(each, Settled) and not inspect.isabstract(each)}
    return sorted(kept, key=str)


def an_optimizer(cls: type) -> object:
    exchange = None if cls is nn.optimizer.GDOptimizer else Alone()
    return cls(nn.gradient_descent.SGDOptimizer(), made().store, exchange)


class Alone:
    """The exchange of one worker: it gets what it puts."""

    shards, shard = 1, 0

    def __init__(self) -> None:
        self.contents: dict[int, np.ndarray] = {}

    def put(self, variable_id: int, block_id: int, content: np.ndarray) -> None:
        self.contents[variable_id] = content

    def ready(self, variable_id: int) -> bool:
        return variable_id in self.contents

    def get(self, variable_id: int) -> np.ndarray:
        return self.contents.pop(variable_id)


EXAMPLES = {
    "AveragePool": (2,), "Conv1D": (2, 3), "Conv2D": (2, 3), "Dense": (2,), "Dropout": (0.5,), "EarlyStopping": ("Loss",),
    "Embedding": (3, 2), "GRU": (2,), "LSTM": (2,), "MaxPool": (2,), "ModelCheckpoint": ("x.psgd",),
    "MultiHeadAttention": (2, 2), "Reshape": ([2],), "SimpleRNN": (2,), "LearningRateScheduler": (float,),
    "CSVLogger": ("x.csv",), "SequentialModel": ([-1, 2],), "StepDecay": (0.1, 2), "ExponentialDecay": (0.1, 2),
    "ClientFolders": ("clients",), "LEAF": ("femnist",), "KernelDecay": (0.1,), "CosineRestarts": (0.1, 2),
    "OneCycle": (0.1, 4), "Piecewise": ([2], [0.1, 0.01]), "Polynomial": (0.1, 2),
    "Weighted": ("mse",),
    "GradientAccumulation": (nn.gradient_descent.SGDOptimizer(), 2), "MovingAverage": (nn.gradient_descent.SGDOptimizer(),),
    "StochasticAverage": (nn.gradient_descent.SGDOptimizer(),),
    "TokenText": ("x.txt", []), "Cosine": (0.1, 2), "WarmUp": (0.1, 2), "Transformer": (5, 4),
    "ArrayDataset": (np.zeros((4, 2)), np.zeros(4)),
    "CSVDataset": ("x.csv", "y"), "NpzDataset": ("x.npz",), "CharacterText": ("x.txt",), "Chain": ([],), "OneHot": (3,),
    "WrappingRule": (nn.gradient_descent.SGDOptimizer(),), "ParameterMean": (nn.gradient_descent.SGDOptimizer(),),
    "Activation": ("relu",), "Permute": ((2, 1),), "RepeatVector": (2,),
    "Parameter": ([2],), "Rescaling": (2,), "GaussianNoise": (0.1,), "Conv1DTranspose": (2,),
    "Conv2DTranspose": (2,), "SeparableConv1D": (2,), "SeparableConv2D": (2,), "Bidirectional": (nn.layer.GRU(2),),
    "ImageFolder": ("images",), "TextFolder": ("texts",), "RandomContrast": (0.1,), "RandomCrop": (2, 2),
    "RandomRotation": (0.1,), "RandomTranslation": (0.1, 0.1), "RandomZoom": (0.1,),
    "CategoryEncoding": (3,), "CenterCrop": (2, 2), "Resizing": (2, 2),
    "Lambda": (nn.function.exp,), "TimeDistributed": (Dense(2),),
    "Dirichlet": (0.5, 2, 2), "Make_Non_IID": (2, 0.5), "True_Non_IID": (2, 0.5), "Windows": (2,), "TopKAccuracy": (2,),
    "Buckets": ([2],),
}  # fmt: skip

WITH_EFFECT = {
    nn.callback.Callback: {"folder", "model", "params"},
    nn.gradient_descent.IGradientDescent: {"learn_rate", "learning_rate", "step", "team"},
    nn.layer.Layer: {"name", "trainable"},
    nn.model.Model: {
        "callback_states", "dtype", "epochs_trained", "input_shape", "inputs", "keyless_calls", "seed", "stop_training",
        "trainable",
    },
    nn.optimizer.IOptimizer: {"learning_rate", "shows_gradients"},
}  # fmt: skip
"""What may be set, of which other tests show the effect."""


def example(cls: type) -> object:
    if issubclass(cls, nn.optimizer.IOptimizer):
        return an_optimizer(cls)
    if cls is nn.model.Functional:
        x = nn.Input([-1, 4])
        return cls(x, Dense(2)(x))
    if cls is nn.model.CachedDecoder:
        model = nn.model.Transformer(5, 4, features=4, heads=2)
        model.setup(nn.loss.Cross_Entropy_With_Softmax())
        return cls(model)
    if cls is nn.model.Fragment:
        return made().split("dense_1")[0]
    if cls is nn.gradient_descent.Constant:
        return cls(0.1)
    return cls(*EXAMPLES.get(cls.__name__, ()))


@covers("DAT-11")
@pytest.mark.parametrize("cls", public_classes(), ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_every_public_attribute_of_every_public_class_is_refused_or_has_an_effect(cls: type) -> None:
    item = example(cls)
    if isinstance(item, nn.layer.Layer):
        item._keep(built=True)  # before, its arguments may be set: they have their effect in `build`
    free = {name for base, names in WITH_EFFECT.items() if isinstance(item, base) for name in names}
    names = {name for name in [*dir(item), *inspect.signature(cls).parameters] if not name.startswith("_")} - free
    for name in sorted(names):
        with pytest.raises(AttributeError, match=f"'{name}'"):
            setattr(item, name, 1)
        with pytest.raises(AttributeError, match=f"'{name}'"):
            delattr(item, name)
    with pytest.raises(AttributeError, match="has no attribute 'quite_unknown' that can be set"):
        item.quite_unknown = 1  # type: ignore[attr-defined]
    if isinstance(item, nn.dataset.AbsDataset):
        return  # their lists are read when the samples are loaded
    kept = {name: value for name, value in vars(item).items() if not name.startswith("_")}
    assert not {name for name, value in kept.items() if isinstance(value, (dict, list)) and name not in MUTABLE}


MUTABLE = {"params", "reductions", "variables"}
"""What an object only tells; `variables` is what `add_variable` fills."""


def test_clear_goes_back_to_the_rate_that_compile_was_given() -> None:
    model, fresh = made(), made()
    lower = nn.callback.ReduceOnPlateau("Loss", patience=1, min_delta=1.0)
    y = np.ones((9, 4))
    model.fit(X, y, epochs=5, callbacks=[lower], verbose=0)
    model.clear()
    assert model.fit(X, y, epochs=3, verbose=0)["Loss"] == fresh.fit(X, y, epochs=3, verbose=0)["Loss"]


@covers("DAT-11")
def test_a_wrong_monitor_is_refused_before_the_first_batch() -> None:
    model = made()
    before = model.get_weights()
    with pytest.raises(ValueError, match="the results are Loss, val_Loss"):
        model.fit(
            X, np.ones((9, 4)), validation_split=0.2, epochs=1, verbose=0, callbacks=[nn.callback.EarlyStopping("val_accuracy")]
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
    assert trained.history == {"loss": trained["Loss"], "val_loss": trained["val_Loss"]}
    assert nn.layer.Conv2D(filters=3).filters == 3
    assert nn.layer.MaxPool(pool_size=3).get_config() == nn.layer.MaxPool(3).get_config()
    assert nn.callback.ReduceOnPlateau("Loss", min_lr=0.1).min_rate == 0.1
