"""Names, words and arguments of Keras that are others here, for the errors of names and arguments that are none.

Those errors alone load this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

_PACKAGES: Final = (
    "layer", "activation", "model", "loss", "metric", "gradient_descent", "initializer", "regularizer", "constraint",
    "callback", "function", "dataset", "dataset.transforms", "onnx",
)  # fmt: skip

MEANT: Final[Mapping[str, str]] = MappingProxyType({
    # Packages.
    "activations": "nn.activation", "callbacks": "nn.callback", "constraints": "nn.constraint", "datasets": "nn.dataset",
    "initializers": "nn.initializer", "layers": "nn.layer", "losses": "nn.loss", "metrics": "nn.metric", "models": "nn.model",
    "ops": "nn.function", "optimizers": "nn.gradient_descent", "regularizers": "nn.regularizer",
    # Models.
    "Sequential": "nn.model.SequentialModel", "clone_model": "copy.deepcopy", "load_model": "nn.model.Model.load",
    "save_model": "nn.model.Model.save", "plot_model": "nn.model.Model.plot",
    "GradientTape": "nn.model.Model.compute_gradients",
    "Input": "nn.Input", "InputLayer": "nn.Input", "Variable": "nn.Variable",
    # Layers.
    **{f"{prefix}{kind}{axes}": f"nn.layer.{here}" for prefix, kind, here in (
        ("", "MaxPooling", "MaxPool"), ("", "MaxPool", "MaxPool"), ("", "AveragePooling", "AveragePool"),
        ("", "AvgPool", "AveragePool"), ("Global", "MaxPooling", "GlobalMaxPool"), ("Global", "MaxPool", "GlobalMaxPool"),
        ("Global", "AveragePooling", "GlobalAveragePool"), ("Global", "AvgPool", "GlobalAveragePool"),
        ("", "ZeroPadding", "ZeroPadding"), ("", "Cropping", "Cropping"), ("", "UpSampling", "UpSampling"),
        ("", "SpatialDropout", "SpatialDropout"),
    ) for axes in ("1D", "2D")},
    "BatchNormalization": "nn.layer.BatchNorm", "LayerNormalization": "nn.layer.LayerNorm",
    "GroupNormalization": "nn.layer.GroupNorm", "RMSNormalization": "nn.layer.RMSNorm",
    "Convolution1D": "nn.layer.Conv1D", "Convolution2D": "nn.layer.Conv2D",
    "Convolution1DTranspose": "nn.layer.Conv1DTranspose", "Convolution2DTranspose": "nn.layer.Conv2DTranspose",
    "SeparableConvolution1D": "nn.layer.SeparableConv1D", "SeparableConvolution2D": "nn.layer.SeparableConv2D",
    "LeakyReLU": "nn.activation.LeakReLU",
    # Losses and metrics.
    "BinaryCrossentropy": "nn.loss.Binary_Cross_Entropy_Of_Probabilities", "CategoricalCrossentropy": "nn.loss.Cross_Entropy",
    "SparseCategoricalCrossentropy": "nn.loss.Cross_Entropy", "CategoricalHinge": "nn.loss.Hinge",
    "BinaryFocalCrossentropy": "nn.loss.Binary_Focal_Cross_Entropy",
    "CategoricalFocalCrossentropy": "nn.loss.Focal_Cross_Entropy_With_Softmax",
    "Huber": "nn.loss.HuberLoss", "LogCosh": "nn.loss.TanhLoss", "Poisson": "nn.loss.PoissonLoss",
    "MeanSquaredError": "nn.loss.MSELoss nn.metric.MeanSquareError",
    "MeanAbsoluteError": "nn.loss.MAELoss nn.metric.MeanAbsoluteError",
    "RootMeanSquaredError": "nn.metric.RootMeanSquareError", "R2Score": "nn.metric.R2",
    "Accuracy": "nn.metric.CategoricalAccuracy", "SparseCategoricalAccuracy": "nn.metric.CategoricalAccuracy",
    "TopKCategoricalAccuracy": "nn.metric.TopKAccuracy", "SparseTopKCategoricalAccuracy": "nn.metric.TopKAccuracy",
    "AUC": "nn.metric.AreaUnderCurve", "F1Score": "nn.metric.ClassF1", "TruePositives": "nn.metric.TruePositive",
    "FalsePositives": "nn.metric.FalsePositive", "TrueNegatives": "nn.metric.TrueNegative",
    "FalseNegatives": "nn.metric.FalseNegative",
    # Rules and learning rates.
    **{name: f"nn.gradient_descent.{here}Optimizer" for name, here in (
        ("SGD", "SGD"), ("Adam", "ADAM"), ("AdamW", "ADAMW"), ("RMSprop", "RMSProp"), ("Adagrad", "AdaGrad"),
        ("Adadelta", "AdaDelta"), ("Nadam", "Nadam"), ("Adamax", "Adamax"), ("Lion", "Lion"), ("Lamb", "LAMB"),
        ("Adafactor", "Adafactor"), ("Muon", "Muon"),
    )},
    "Optimizer": "nn.gradient_descent.IGradientDescent", "LearningRateSchedule": "nn.gradient_descent.Schedule",
    "CosineDecay": "nn.gradient_descent.Cosine", "CosineDecayRestarts": "nn.gradient_descent.CosineRestarts",
    "PiecewiseConstantDecay": "nn.gradient_descent.Piecewise", "PolynomialDecay": "nn.gradient_descent.Polynomial",
    # Initialisers and callbacks.
    "RandomNormal": "nn.initializer.Normal", "RandomUniform": "nn.initializer.Uniform",
    "ReduceLROnPlateau": "nn.callback.ReduceOnPlateau", "SwapEMAWeights": "nn.callback.SwapEMA",
    "BackupAndRestore": "nn.callback.ModelCheckpoint",
    # Data.
    "image_dataset_from_directory": "nn.dataset.ImageFolder", "text_dataset_from_directory": "nn.dataset.TextFolder",
    "timeseries_dataset_from_array": "nn.dataset.transforms.Windows", "to_categorical": "nn.dataset.transforms.OneHot",
})  # fmt: skip
"""The names here of names of Keras; several, with blanks between them, where packages have one each."""


def name_here(package: str, name: str) -> str:
    """Return the name here for a name of Keras that a package lacks; "" where none is known.

    Args:
        package: the package that was asked, of which names come first.
        name: the name, one of Keras, or one of `nn` that is elsewhere or has other capital letters.
    """
    found = [*MEANT.get(name, "").split(), *_alike(name)]
    # Of one package first; the sort keeps the order otherwise.
    best = min(found, key=lambda each: not each.startswith(f"{package}."), default="")
    # An activation is no layer by itself.
    return f"nn.layer.Activation({best}())" if package == "nn.layer" and best.startswith("nn.activation.") else best


def _alike(name: str) -> Iterator[str]:
    """Yield the places where a name stands as it is written, then those where another spelling of it does."""
    modules = {f"nn.{each}": import_module(f"nn.{each}") for each in _PACKAGES}
    for place, module in modules.items():
        if name in module.__all__:
            yield f"{place}.{name}"
    for place, module in modules.items():
        names = {**{each: each for each in module.__all__}, **vars(module).get("WORDS", {})}
        for spelled, each in names.items():
            if _folded(spelled) == _folded(name):
                yield f"{place}.{each}"


def _folded(name: str) -> str:
    return name.lower().replace("_", "")


_SHAPE: Final = "a model has the shape of its samples: SequentialModel([-1, 4], layers), nn.Input([-1, 4])"
_LAST: Final = "it is the last axis, always"
_BOTH: Final = "gamma and beta are there, always"
_LOGITS: Final = "losses of scores are classes of their own, such as Cross_Entropy_With_Softmax and Binary_Cross_Entropy"
_KEYED: Final = "draws are keyed by the seed of the model, or of fit()"
_NEEDLESS: Final = "leave it out"
_WORKERS: Final = "parallel_sgd.ParallelSGD trains on several workers"
_MASKED: Final = "a mask comes with its value: Masking(), Embedding(mask_zero=True)"

ARGUMENTS: Final[Mapping[str, str]] = MappingProxyType({
    # Of all layers, losses, rules or readers of a package.
    "layer.input_shape": _SHAPE, "layer.input_dim": _SHAPE, "layer.batch_input_shape": _SHAPE, "layer.input_length": _SHAPE,
    "layer.batch_shape": _SHAPE, "layer.data_format": "channels come last, always", "layer.seed": _KEYED,
    "layer.dtype": "a model has the type: SequentialModel(.., dtype='float64')",
    "layer.trainable": "set it: layer.trainable = False", "layer.weights": "set_weights() of the model takes them",
    "layer.activity_regularizer": "add_loss() of a functional model takes the penalty of a value",
    "layer.go_backwards": "x[:, ::-1] turns sequences round", "layer.unroll": _NEEDLESS, "layer.implementation": _NEEDLESS,
    **{f"{kind}.{name}": told for kind in ("SimpleRNN", "GRU", "LSTM") for name, told in (
        ("dropout", "SpatialDropout(rate) in front of the layer does it"),
        ("activation", "it is tanh, always"),
    )},
    **dict.fromkeys(("GRU.recurrent_activation", "LSTM.recurrent_activation"), "it is the logistic function, always"),
    "MultiHeadAttention.output_shape": "it is 'output_dim'",
    "layer.reset_after": "the reset gate stands behind the product, always",
    **{f"{kind}.{name}": told for kind in ("BatchNorm", "LayerNorm", "GroupNorm") for name, told in (
        ("axis", _LAST), ("center", _BOTH), ("scale", _BOTH),
    )},
    "RMSNorm.axis": _LAST,
    "Dropout.noise_shape": "SpatialDropout leaves out whole channels", "Lambda.output_shape": "the function tells it",
    "initializer.seed": _KEYED,
    "loss.from_logits": _LOGITS, "loss.reduction": "it is the mean over the samples, always", "loss.name": _NEEDLESS,
    "callback.verbose": _NEEDLESS, "TensorBoard.histogram_freq": _NEEDLESS,
    "ModelCheckpoint.save_freq": "it is 'every', a number of epochs",
    "gradient_descent.staircase": "StepDecay falls in steps",
    "gradient_descent.name": _NEEDLESS,
    "gradient_descent.decay": "a schedule in place of the rate lowers it: ExponentialDecay(rate, steps)",
    "gradient_descent.use_ema": "MovingAverage(rule) averages weights",
    "gradient_descent.gradient_accumulation_steps": "GradientAccumulation(rule, steps) does it",
    "dataset.validation_split": "it is 'test_fraction'", "dataset.batch_size": "fit() and jobs deal batches",
    "dataset.label_mode": "labels are class numbers; the transform OneHot makes rows of them",
    # Of calls.
    "layer().training": "fit() trains, predict() and evaluate() do not", "layer().mask": _MASKED,
    "layer().attention_mask": _MASKED, "layer().use_causal_mask": "it is an argument of the layer, causal=True",
    "layer().value": "values come in a list: layer([query, value, key])",
    **{f"{call}().y": "it is 'label'" for call in ("fit", "evaluate", "train_on_batch", "test_on_batch")},
    "fit().initial_epoch": "until_epoch= counts epochs in all", "fit().validation_freq": "it is evaluated after each epoch",
    "fit().validation_steps": "all of the validation data is evaluated", "fit().validation_batch_size": _NEEDLESS,
    "fit().workers": _WORKERS, "fit().use_multiprocessing": _WORKERS,
    "summary().line_length": _NEEDLESS, "summary().expand_nested": _NEEDLESS, "summary().show_trainable": _NEEDLESS,
    "evaluate().verbose": "nothing is shown; leave it out", "predict().verbose": "nothing is shown; leave it out",
    "evaluate().return_dict": "it is a dict, always", "train_on_batch().return_dict": "it is a dict, always",
    "test_on_batch().return_dict": "it is a dict, always",
    "compile().run_eagerly": _NEEDLESS, "compile().jit_compile": _NEEDLESS,
    "compile().steps_per_execution": _NEEDLESS, "get_layer().index": "model.layers[index]",
    "load_weights().by_name": "weights go by names, unless names='order' is given",
    "load_weights().skip_mismatch": "partial=True leaves out what has no partner",
})  # fmt: skip
"""Remedies for arguments of Keras that classes and calls here lack, by package or call."""

SYNONYMS: Final[Mapping[str, str]] = MappingProxyType({
    "test_size": "test_fraction", "validation_size": "test_fraction", "random_state": "seed", "stratify": "split",
    "target": "label", "y_col": "label", "usecols": "features", "columns": "features",
    **dict.fromkeys(("drop", "ignore", "exclude", "index_col"), "index"),
    "sep": "delimiter", "fillna": "missing", "parse_dates": "dates",
    **dict.fromkeys(("lr", "learning_rate"), "learn_rate"),
})  # fmt: skip
"""Arguments of pandas, scikit-learn and Keras, with the one that says the same here, where a callable has it."""

ABBREVIATIONS: Final[Mapping[str, str]] = MappingProxyType({
    # Losses.
    "bce": "binary_crossentropy", "binary_cross_entropy": "binary_crossentropy", "log_loss": "binary_crossentropy",
    "bce_with_logits": "binary_crossentropy_with_sigmoid", "cce": "categorical_crossentropy",
    "scce": "sparse_categorical_crossentropy", "ce": "crossentropy", "cross_entropy": "crossentropy",
    "nll": "crossentropy", "kld": "kl_divergence", "l1": "mae", "l2": "mse",
    # Metrics.
    "acc": "accuracy", "roc_auc": "auc", "f1_score": "f1", "average_precision": "pr_auc",
    "root_mean_square_error": "rmse", "confusion": "confusion_matrix",
})  # fmt: skip
"""Short words of Keras, torch and scikit-learn for losses and metrics, with the word here."""

_VALUES: Final = "get_value()"
_VARIABLES: Final = "trainable_variables(), with get_value() and set_value(array) each"
_SHOWN: Final = "summary() of the model, which shows it"
ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({
    # Of models.
    **{f"Network.{name}": _VARIABLES for name in ("weights", "variables", "trainable_weights", "parameters")},
    **{f"Network.non_trainable_{name}": "get_weights(), the arrays of all" for name in ("weights", "variables")},
    "Network.count_params": _SHOWN, "Network.output_shape": _SHOWN,
    "Network.to_json": "save(path), or to_bytes()", "Network.save_model": "save(path)", "Network.load_model": "load(path)",
    "Network.state_dict": "get_weights(), or save_weights(path)", "Network.load_state_dict": "load_weights(source)",
    "Network.fit_generator": "fit()", "Network.predict_generator": "predict()",
    "Network.predict_classes": "predict(x).argmax(-1)", "Network.predict_proba": "predict()",
    "Network.history": "the result of fit()", "Network.build": "setup(loss)",
    "Network.train": "fit(), which alone trains", "Network.eval": "predict(), which does not train",
    "Network.clone": "copy.deepcopy(model)", "Network.from_config": "copy.deepcopy(model)",
    # Of layers.
    **{f"Layer.{name}": "variables" for name in (
        "weights", "trainable_weights", "trainable_variables", "non_trainable_weights", "parameters",
    )},
    "Layer.get_weights": "get_value() of each of its variables",
    "Layer.set_weights": "set_value(array) of each of its variables",
    "Layer.add_weight": "add_variable(name, shape)", "Layer.add_loss": "add_loss(value) of the model",
    "Layer.count_params": _SHOWN, "Layer.input_shape": _SHOWN, "Layer.output_shape": _SHOWN,
    "Layer.output": "output_of(name) of the model", "Layer.compute_output_shape": "layer(nn.Placeholder(shape)).shape",
    "Layer.dtype": "dtype of the model", "Layer.compute_mask": "mask of the value that it returns",
    # Of variables.
    "Variable.numpy": _VALUES, "Variable.data": _VALUES, "Variable.detach": _VALUES, "Variable.item": _VALUES,
    "Variable.assign": "set_value(array)", "Variable.grad": "get_gradient()", "Variable.dtype": "dtype of the model",
    # Of transforms.
    "_OfTexts.get_vocabulary": "words", "_OfTexts.vocabulary_size": "len(words)",
    "_OfTexts.set_vocabulary": "the argument 'vocabulary' of the constructor", "_OfTexts.call": "apply(texts)",
})  # fmt: skip
"""Words here for attributes of Keras and torch that classes here lack, by the class and the attribute."""


def attribute_here(cls: type, name: str) -> str:
    """Return the words here for an attribute of Keras or torch that objects of a class lack, "" for any other name."""
    return next((ATTRIBUTES[key] for base in cls.__mro__ if (key := f"{base.__name__}.{name}") in ATTRIBUTES), "")
