"""Names, words and arguments of Keras and torch that are others here, for the errors of names and arguments that are none.

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
    "utils": "nn.dataset.transforms.OneHot() for to_categorical(), nn.dataset.pad_sequences(), and plot() of a model",
    "preprocessing": "nn.dataset, with pad_sequences(), ImageFolder and TextFolder, and nn.dataset.transforms",
    "backend": "nn.function", "applications": "nn.model, with LeNet5, AlexNet and ResNet20, which are not trained yet",
    # Models.
    "Sequential": "nn.model.SequentialModel", "clone_model": "copy.deepcopy", "load_model": "nn.model.Model.load",
    "save_model": "nn.model.Model.save", "plot_model": "nn.model.Model.plot",
    "GradientTape": "nn.model.Model.compute_gradients",
    "Input": "nn.Input", "InputLayer": "nn.Input", "Variable": "nn.Variable", "KerasTensor": "nn.Value",
    "keras": "nn", "Module": "nn.model.Model nn.layer.Layer", "save": "nn.model.Model.save", "load": "nn.model.Model.load",
    "register_keras_serializable": "nn.model.Model.load(path, custom_objects={..})",
    "custom_object_scope": "nn.model.Model.load(path, custom_objects={..})",
    "get_custom_objects": "nn.model.Model.load(path, custom_objects={..})",
    **dict.fromkeys(("manual_seed", "set_random_seed"), "the argument 'seed' of a model, or of fit()"),
    **{name: f"{name}() of a model" for name in ("compile", "evaluate", "fit", "predict")},
    "no_grad": "predict() of a model", "clip_grad_norm_": "the argument 'clip_norm' of a rule",
    **dict.fromkeys(("DataParallel", "DistributedDataParallel"), "parallel_sgd.ParallelSGD"),
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
    # Those of torch, which calls its package nn, too.
    "Linear": "nn.layer.Dense", "LazyLinear": "nn.layer.Dense", "RNN": "nn.layer.SimpleRNN", "Unflatten": "nn.layer.Reshape",
    "Identity": "nn.activation.Linear nn.initializer.Identity", "Parameter": "nn.Variable nn.layer.Parameter",
    "ModuleList": "a list in an attribute of the layer or model", "ModuleDict": "a dict in an attribute of the layer or model",
    **{f"{kind}{axes}": f"nn.layer.{here}" for kind, here in (
        ("BatchNorm", "BatchNorm"), ("MaxPool", "MaxPool"), ("AvgPool", "AveragePool"), ("ZeroPad", "ZeroPadding"),
        ("AdaptiveAvgPool", "GlobalAveragePool"), ("AdaptiveMaxPool", "GlobalMaxPool"), ("Dropout", "SpatialDropout"),
    ) for axes in ("1d", "2d")},
    "ConvTranspose1d": "nn.layer.Conv1DTranspose", "ConvTranspose2d": "nn.layer.Conv2DTranspose",
    "Upsample": "nn.layer.UpSampling", "functional": "nn.function", "init": "nn.initializer", "optim": "nn.gradient_descent",
    "CrossEntropyLoss": "nn.loss.Cross_Entropy_With_Softmax", "NLLLoss": "nn.loss.Cross_Entropy",
    "BCELoss": "nn.loss.Binary_Cross_Entropy_Of_Probabilities", "BCEWithLogitsLoss": "nn.loss.Binary_Cross_Entropy",
    "L1Loss": "nn.loss.MAELoss", "SmoothL1Loss": "nn.loss.HuberLoss", "KLDivLoss": "nn.loss.KLDivergence",
    "CTCLoss": "nn.loss.CTC", "PoissonNLLLoss": "nn.loss.PoissonLoss", "TripletMarginLoss": "nn.loss.Triplet",
    # What has no counterpart.
    **{name: f"a class of your own, derived from nn.{base}" for base, names in (
        ("layer.Layer", "ActivityRegularization AlphaDropout Conv3D ConvLSTM2D Discretization EinsumDense Hashing "
         "IntegerLookup MaxPooling3D RandomBrightness SpectralNormalization UnitNormalization InstanceNorm1d InstanceNorm2d "
         "PixelShuffle EmbeddingBag Bilinear"),
        ("activation.Activation", "CELU Threshold ThresholdedReLU"),
        ("loss.Loss", "CategoricalGeneralizedCrossEntropy Circle CosineEmbeddingLoss GaussianNLLLoss HingeEmbeddingLoss "
         "MeanAbsolutePercentageError MeanSquaredLogarithmicError MultiMarginLoss Tversky"),
        ("metric.Metric", "FBetaScore MeanMetricWrapper"), ("gradient_descent.IGradientDescent", "Ftrl"),
        ("gradient_descent.Schedule", "InverseTimeDecay"), ("callback.Callback", "RemoteMonitor"),
    ) for name in names.split()},
    "Attention": "nn.layer.MultiHeadAttention", "AdditiveAttention": "nn.layer.MultiHeadAttention",
    "LSTMCell": "nn.layer.LSTM", "GRUCell": "nn.layer.GRU", "RNNCell": "nn.layer.SimpleRNN",
    "TransformerEncoderLayer": "nn.layer.MultiHeadAttention with nn.layer.LayerNorm and nn.layer.Dense",
    # Functions.
    "matmul": "x @ y", "power": "x ** y", "pow": "x ** y", "squeeze": "nn.function.reshape",
    "expand_dims": "nn.function.reshape", "unsqueeze": "nn.function.reshape", "cat": "nn.function.concatenate",
    "concat": "nn.function.concatenate", "permute": "nn.function.transpose",
    **{f"reduce_{name}": f"nn.function.{name}" for name in ("max", "mean", "min", "sum")},
    "clip": "nn.function.minimum(nn.function.maximum(x, low), high)", "abs": "nn.function.absolute", "divide": "x / y",
    "split": "slices, x[..., :n] and x[..., n:]", "unstack": "x[:, i]", "flip": "x[:, ::-1]", "shape": "x.shape",
    "expm1": "nn.function.exp(x) - 1", "log1p": "nn.function.log(1 + x)", "moveaxis": "nn.function.transpose",
    "norm": "nn.function.sqrt(nn.function.sum(x * x, axis=-1))",
    "logsumexp": "nn.function.log(nn.function.sum(nn.function.exp(x), axis=-1))",
    "var": "nn.function.mean(nn.function.square(x - nn.function.mean(x, axis=-1, keepdims=True)), axis=-1)",
    "greater": "x > y", "less": "x < y", "greater_equal": "x >= y", "less_equal": "x <= y", "logical_and": "masks, x * y",
    "logical_or": "nn.function.maximum", "logical_not": "1 - x", "gather": "nn.function.lookup", "take": "nn.function.lookup",
    "sign": "masks, (x > 0) - (x < 0)", "ones_like": "x * 0 + 1", "zeros_like": "x * 0",
    **dict.fromkeys(("repeat", "tile", "broadcast_to"), "broadcasting: x * np.ones(shape)"), "pad": "nn.layer.ZeroPadding",
    **dict.fromkeys(("cast", "convert_to_tensor"), "the value itself: a model has one type, and arrays stand for values"),
    "arange": "np.arange: arrays stand for values; learned positions are nn.layer.Parameter([steps, features])(x)",
    "einsum": "nn.function.tensordot or x @ y", "argmax": "predict() and then np.argmax",
    # Losses and metrics.
    "bce": "nn.loss.Binary_Cross_Entropy_Of_Probabilities", "acc": "nn.metric.CategoricalAccuracy",
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
    "BackupAndRestore": "nn.callback.ModelCheckpoint", "TerminateOnNaN": "fit(stop_on_nan=True), which is the default",
    "ProgbarLogger": "fit(verbose=1), which is the default",
    "Constant": "nn.initializer.Constant nn.gradient_descent.Constant",
    # Data.
    "image_dataset_from_directory": "nn.dataset.ImageFolder", "text_dataset_from_directory": "nn.dataset.TextFolder",
    "timeseries_dataset_from_array": "nn.dataset.transforms.Windows", "to_categorical": "nn.dataset.transforms.OneHot",
    "Tokenizer": "nn.dataset.transforms.TextVectorization", "ImageDataGenerator": "nn.dataset.ImageFolder",
    "DataLoader": "nn.data.DataFeeder", "TensorDataset": "nn.dataset.ArrayDataset", "Dataset": "nn.dataset.AbsDataset",
    "load_data": "load() of a data set, as in nn.dataset.MNIST().load()", "load_digits": "nn.dataset.Digits().load()",
})  # fmt: skip
"""Names here for those of Keras and torch, or words; several names, with blanks between, where packages have one each."""


def name_here(package: str, name: str) -> str:
    """Return the name here for a name of Keras or torch that a package lacks; "" where none is known.

    Args:
        package: the package that was asked, of which names come first.
        name: the name, one of Keras, or one of `nn` that is elsewhere or has other capital letters.
    """
    # A name of Keras comes in the spelling of a word, too: `sparse_categorical_accuracy`.
    folded = next((here for each, here in MEANT.items() if _folded(each) == _folded(name)), "")
    found = [*_places(MEANT.get(name, "")), *_alike(name), *_places(folded)]
    # Of one package first; the sort keeps the order otherwise.
    best = min(found, key=lambda each: not each.startswith(f"{package}."), default="")
    # An activation is no layer by itself.
    return f"nn.layer.Activation({best}())" if package == "nn.layer" and best.startswith("nn.activation.") else best


def _places(meant: str) -> list[str]:
    """Return the names of a row of `MEANT`, or its words as one."""
    names = meant.split()
    return names if all(each.startswith("nn.") for each in names) else [meant]


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
    "fit().max_queue_size": _WORKERS, "model.name": "Model(inputs, outputs, name='..') has one; leave it out elsewhere",
    **{f"{call}().{name}": told for call in ("evaluate", "predict") for name, told in (
        ("callbacks", "nothing is told to callbacks; leave it out"), ("steps", "all batches are computed; leave it out"),
    )},
    "Input().dtype": "inputs are numbers of any type, ids among them; leave it out",
    **dict.fromkeys(("Input().batch_size", "Input().batch_shape"), "batches have any size; 'shape' is that of one sample"),
    **dict.fromkeys(("Input().sparse", "Input().ragged", "Input().tensor", "Input().optional"), _NEEDLESS),
    "summary().print_fn": "summary() returns the text, too", "plot().to_file": "it is 'path'",
    **dict.fromkeys(("plot().show_shapes", "plot().show_layer_names"), "shapes and names are shown, always"),
    **dict.fromkeys(("save().save_format", "save().overwrite", "save().include_optimizer"), _NEEDLESS),
    **dict.fromkeys(("Model.load().compile", "Model.load().safe_mode"), _NEEDLESS),
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
_STEP: Final = "compute_gradients() and apply_gradients(), in a loop of your own"
_RATE: Final = "learning_rate, which can be set"
_SETTING: Final = "set_value(array)"
_WEIGHT_OF_MODEL: Final = "nn.Variable(shape), in an attribute of the model"
ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({
    # Of models.
    **{f"Network.{name}": _VARIABLES for name in (
        "weights", "variables", "trainable_weights", "parameters", "named_parameters",
    )},
    **{f"Network.{name}": "get_weights(), the arrays of all" for name in (
        "non_trainable_weights", "non_trainable_variables", "buffers", "named_buffers",
    )},
    "Network.count_params": _SHOWN, "Network.output_shape": _SHOWN,
    "Network.to_json": "save(path), or to_bytes()", "Network.to_yaml": "save(path), or to_bytes()",
    "Network.save_model": "save(path)", "Network.load_model": "load(path)",
    "Network.state_dict": "get_weights(), or save_weights(path)", "Network.load_state_dict": "load_weights(source)",
    "Network.fit_generator": "fit()", "Network.predict_generator": "predict()", "Network.evaluate_generator": "evaluate()",
    "Network.predict_classes": "predict(x).argmax(-1)", "Network.predict_proba": "predict()", "Network.score": "evaluate()",
    "Network.history": "the result of fit()", "Network.build": "input_shape of its constructor, then setup(loss) or compile()",
    "Network.train": "fit(), which alone trains", "Network.eval": "predict(), which does not train",
    "Network.clone": "copy.deepcopy(model)", "Network.from_config": "copy.deepcopy(model)",
    "Network.forward": "call(x), which a class defines; predict(x) computes it",
    **{f"Network.{name}": _STEP for name in ("train_step", "test_step", "predict_step", "compute_loss", "backward")},
    **{f"Network.{name}": "layers" for name in ("modules", "children", "named_modules", "named_children")},
    "Network.get_submodule": "get_layer(name)", "Network.get_parameter": _VARIABLES,
    "Network.requires_grad_": "trainable, which can be set", "Network.lr": "optimizer.learning_rate, which can be set",
    "Network.learning_rate": "optimizer.learning_rate, which can be set",
    **{f"Network.{name}": _WEIGHT_OF_MODEL for name in ("add_weight", "add_variable", "register_parameter")},
    "Network.register_buffer": "nn.Variable(shape, trainable=False), in an attribute of the model",
    "Network.add_metric": "compile(metrics=[..])", "Network.compute_metrics": "evaluate(), or compile(metrics=[..])",
    "Network.compute_output_shape": "model(nn.Input(shape)).shape", "Network.compute_mask": "mask of the value that it returns",
    "SequentialModel.pop": "layers.pop(), before setup()", "SequentialModel.add_module": "add(layer), before setup()",
    "Network.pop": "output_of(name), to build a model on", "Network.add_module": "an attribute, which call(x) uses",
    "Functional.add_module": "layer(value), with Model(inputs, outputs) of the result",
    "Network.register_forward_hook": "output_of(name), to build a model on",
    "Network.outputs": "output of Model(inputs, outputs)",
    "Network.input": "input of Model(inputs, outputs); split(layer) gives what is in front of a layer",
    "Network.output": "output of Model(inputs, outputs); split(layer) gives what is in front of a layer",
    "Network.add_loss": "add_loss(value) of Model(inputs, outputs)", "Network.add": "SequentialModel(input_shape, layers)",
    "Network.dtype_policy": "dtype", "Network.compute_dtype": "dtype", "Network.variable_dtype": "dtype",
    # Of layers.
    **{f"Layer.{name}": "variables" for name in (
        "weights", "trainable_weights", "trainable_variables", "non_trainable_weights", "non_trainable_variables",
        "parameters", "named_parameters", "buffers", "named_buffers",
    )},
    "Layer.get_weights": "get_value() of each of its variables", "Layer.state_dict": "get_value() of each of its variables",
    "Layer.set_weights": "set_value(array) of each of its variables",
    "Layer.load_state_dict": "set_value(array) of each of its variables",
    "Layer.add_weight": "add_variable(name, shape)", "Layer.add_loss": "add_loss(value) of the model",
    "Layer.register_parameter": "add_variable(name, shape)", "Layer.register_buffer": "add_buffer(name, shape)",
    "Layer.add_metric": "compile(metrics=[..]) of the model", "Layer.activity_regularizer": "add_loss(value) of the model",
    "Layer.count_params": _SHOWN, "Layer.input_shape": _SHOWN, "Layer.output_shape": _SHOWN,
    "Layer.output": "output_of(name) of the model", "Layer.get_output_at": "output_of(name) of the model",
    "Layer.compute_output_shape": "layer(nn.Placeholder(shape)).shape",
    "Layer.compute_output_spec": "layer(nn.Placeholder(shape))",
    "Layer.dtype": "dtype of the model", "Layer.compute_mask": "mask of the value that it returns",
    **{f"Layer.{name}": "dtype of the model" for name in ("dtype_policy", "compute_dtype", "variable_dtype")},
    "Layer.forward": "call(x), which a class defines", "Layer.requires_grad_": "trainable, which can be set",
    "Layer.compile": "compile() of the model", "Layer.reset_states": "reset_states() of the model",
    "Layer.reset_state": "reset_states() of the model",
    "Layer.supports_masking": "x.mask, which call(x) may read, and set of its result",
    "Recurrent.get_initial_state": "the argument initial_state of a call", "Recurrent.states": "reset_states() of the model",
    # Of rules and optimizers.
    "IGradientDescent.lr": _RATE, "IOptimizer.lr": _RATE,
    "IGradientDescent.param_groups": _RATE, "IOptimizer.param_groups": _RATE,
    "IGradientDescent.beta_1": "beta1", "IGradientDescent.beta_2": "beta2",
    "IGradientDescent.clipnorm": "clip_variable_norm", "IGradientDescent.global_clipnorm": "clip_norm",
    "IGradientDescent.clipvalue": "clip_value",
    "IGradientDescent.exclude_from_weight_decay": "weight_decay=nn.gradient_descent.KernelDecay(rate)",
    **{f"IGradientDescent.{name}": "nn.gradient_descent.MovingAverage(rule)" for name in ("use_ema", "ema_momentum")},
    "IGradientDescent.gradient_accumulation_steps": "nn.gradient_descent.GradientAccumulation(rule, steps)",
    **{f"IOptimizer.{name}": f"rule.{here}" for name, here in (
        ("beta_1", "beta1"), ("beta_2", "beta2"), ("epsilon", "epsilon"), ("amsgrad", "amsgrad"), ("learn_rate", "learn_rate"),
        ("weight_decay", "weight_decay"), ("clipnorm", "clip_variable_norm"), ("global_clipnorm", "clip_norm"),
        ("clipvalue", "clip_value"), ("get_config", "get_config()"), ("momentum", "momentum"),
    )},
    **{f"{kind}.{name}": here for kind in ("IGradientDescent", "IOptimizer") for name, here in (
        *((each, "state_dict()") for each in ("variables", "weights", "get_weights", "state")),
        ("set_weights", "load_state_dict(state)"), ("iterations", "state_dict()['step']"),
        ("apply_gradients", "apply_gradients() of the model"), ("apply", "apply_gradients() of the model"),
        ("minimize", "fit() of the model"), ("get_gradients", "compute_gradients() of the model"),
        ("build", "compile() of the model"), ("assign", "load_state_dict(state)"),
    )},
    "IOptimizer.step": "apply_gradients() of the model",
    **{f"LearningRate.{name}": "learning_rate = number, of the rule or optimizer" for name in (
        "assign", "assign_add", "assign_sub",
    )},
    **{f"LearningRate.{name}": "the number itself" for name in ("numpy", "item", "value", "read_value")},
    # Of variables and other values.
    "Variable.numpy": _VALUES, "Variable.data": _VALUES, "Variable.detach": _VALUES, "Variable.item": _VALUES,
    "Variable.tolist": f"{_VALUES}.tolist()", "Variable.clone": _VALUES, "Variable.read_value": _VALUES,
    **{f"Variable.{name}": _SETTING for name in ("assign", "copy_", "fill_", "zero_", "normal_", "uniform_")},
    "Variable.assign_add": "set_value(get_value() + array)", "Variable.assign_sub": "set_value(get_value() - array)",
    "Variable.grad": "get_gradient()", "Variable.path": "name",
    "Variable.requires_grad": "trainable", "Variable.requires_grad_": "trainable, which can be set",
    "Value.dtype": "dtype of the model", "Value.size": "shape", "Value.ndim": "len(shape)", "Value.dim": "len(shape)",
    **{f"Value.{name}": "reshape(shape)" for name in ("view", "squeeze", "unsqueeze", "flatten", "expand_dims")},
    "Value.permute": "transpose(axes)", "Value.t": "T", "Value.matmul": "the operator @", "Value.pow": "the operator **",
    **{f"Value.{name.lower()}": f"nn.activation.{name}()(x)" for name in ("ReLU", "Sigmoid", "Softmax", "Tanh")},
    **{f"Value.{name}": "nn.function.stop_gradient(x)" for name in ("detach", "data")},
    **{f"Value.{name}": "predict() of a model with this output" for name in ("numpy", "item", "tolist")},
    "Value.backward": "compute_gradients() of the model",
    "Value.argmax": "predict() of a model with this output, and its argmax",
    **dict.fromkeys(("Value.clamp", "Value.clip"), "nn.function.minimum(nn.function.maximum(x, low), high)"),
    **dict.fromkeys(("Value.split", "Value.chunk"), "x[:, :n] and x[:, n:]"),
    "Value.std": "the root of the mean of nn.function.square(x - x.mean(axis, keepdims=True))",
    "Value.var": "the mean of nn.function.square(x - x.mean(axis, keepdims=True))",
    # Of other parts.
    "Loss.call": "each(label, output), and derive()", "Loss.reduction": "the mean over the samples",
    "Metric.update_state": "update(label, output)", "Metric.reset_state": "reset()", "Metric.reset_states": "reset()",
    "Metric.compute": "result()", "Configurable.from_config": "Class(**part.get_config())",
    **{f"History.{name}": here for name, here in (
        ("epoch", "history['epoch']"), ("keys", "columns()"), ("items", "history.history.items()"),
        ("loss", "history['loss']"), ("values", "history.history.values()"),
    )},
    "AbsDataset.load_data": "load()",
    **{f"AbsDataset.{name}": "load(), whose arrays fit() deals in batches" for name in (
        "batch", "shuffle", "repeat", "prefetch", "cache", "take", "skip", "as_numpy_iterator",
    )},
    "AbsDataset.map": "a transform on what load() returns, nn.dataset.transforms",
    # Of transforms.
    "_OfTexts.get_vocabulary": "words", "_OfTexts.vocabulary_size": "len(words)",
    "_OfTexts.set_vocabulary": "the argument 'vocabulary' of the constructor", "_OfTexts.call": "apply(texts)",
})  # fmt: skip
"""Words here for attributes of Keras and torch that classes here lack, by the class and the attribute."""

_PROCESSOR: Final = "all is computed on processors; leave it out"
_TYPE: Final = "a model has the type of all its numbers, its argument 'dtype', 'float32' or 'float64'"
_MADE: Final = "a layer makes its variables when it is called, or its model is set up"
_COMPILED: Final = "a model is always compiled; leave it out"
_OF_DEVICES: Final = ("cpu", "cuda", "device", "ipu", "mtia", "to", "to_empty", "xpu")
_OF_TYPES: Final = ("astype", "bfloat16", "double", "float", "half", "int", "long", "type")

ABSENT: Final[Mapping[str, str]] = MappingProxyType({
    **{f"{kind}.{name}": told for kind in ("Network", "Layer", "Value") for names, told in (
        (_OF_DEVICES, _PROCESSOR), (_OF_TYPES, _TYPE),
    ) for name in names},
    **{f"{kind}.zero_grad": "gradients are written anew each time; leave it out" for kind in (
        "Network", "Layer", "IGradientDescent", "IOptimizer",
    )},
    **{f"{kind}.training": "fit() trains, predict() and evaluate() do not" for kind in ("Network", "Layer")},
    "Network.metrics_names": "they are the keys of what evaluate() returns",
    "Network.input_names": "they are the names given to nn.Input",
    "Network.output_names": "they are the names of the layers that give the outputs, or those of a dict",
    "Network.name": "a model within others has one: Model(inputs, outputs, name)",
    "Network.losses": "penalties are part of the loss that fit(), evaluate() and compute_gradients() give",
    "Network.reset_metrics": "each epoch and each evaluate() begins afresh; leave it out",
    "Network.compiled": "the attribute rule is None before compile()",
    **{f"Network.{name}": _COMPILED for name in (
        "run_eagerly", "jit_compile", "steps_per_execution", "train_function", "make_train_function", "make_test_function",
        "make_predict_function",
    )},
    "Network.apply": "the arguments of layers, such as kernel_initializer, say how weights begin",
    "Network.share_memory": "workers of a job have weights of their own; leave it out",
    "Layer.losses": "penalties are part of the loss that fit() and evaluate() of the model give",
    "Layer.input": "a layer may be called several times; the value is that which it was called on",
    "Layer.get_input_at": "a layer may be called several times; the value is that which it was called on",
    **dict.fromkeys(("Layer.modules", "Layer.children", "Layer.named_children"), "layers within a layer are its attributes"),
    "Layer.metrics": "metrics belong to a model: compile(metrics=[..])",
    **{f"Recurrent.{name}": f"it is {told}, always" for name, told in (
        ("activation", "tanh"), ("recurrent_activation", "the logistic function"),
    )},
    **{f"Value.{name}": "operators repeat axes of length 1 by themselves" for name in ("expand", "repeat", "tile")},
    "Layer.train": "fit() of the model trains", "Layer.eval": "predict() of the model does not train",
    **{f"{kind}.{name}": _MADE for kind, names in (
        ("Dense", "kernel bias"), ("Conv1D", "kernel bias"), ("Conv2D", "kernel bias"),
        ("Conv1DTranspose", "kernel bias"), ("Conv2DTranspose", "kernel bias"), ("DepthwiseConv1D", "kernel bias"),
        ("DepthwiseConv2D", "kernel bias"), ("SeparableConv1D", "depthwise_kernel pointwise_kernel bias"),
        ("SeparableConv2D", "depthwise_kernel pointwise_kernel bias"), ("Embedding", "embeddings"),
        ("Recurrent", "kernel recurrent_kernel bias"), ("PReLU", "alpha"), ("Parameter", "value"), ("RMSNorm", "scale"),
        ("BatchNorm", "gamma beta moving_mean moving_variance"), ("LayerNorm", "gamma beta"), ("GroupNorm", "gamma beta"),
    ) for name in names.split()},
    **{f"{kind}.{name}": told for kind in ("IGradientDescent", "IOptimizer") for name, told in (
        ("name", "rules have no names; leave it out"), ("scale_loss", "losses are not scaled; leave it out"),
        ("add_param_group", "one rule trains all variables; layer.trainable = False leaves one out"),
    )},
    "IGradientDescent.add_variable": "slots of the class names its arrays, which slots holds",
    "IGradientDescent.add_weight": "slots of the class names its arrays, which slots holds",
    "Metric.add_weight": "a metric keeps its counts in attributes of its own",
    "Metric.add_variable": "a metric keeps its counts in attributes of its own",
    "Metric.variables": "a metric keeps its counts in attributes of its own",
    "Callback.model": "fit() sets it when it begins", "Callback.set_model": "fit() sets the attribute model",
    "Callback.set_params": "fit() sets the attribute params",
    "History.params": "callbacks have them", "History.model": "it is the one whose fit() returned this",
})  # fmt: skip
"""Sentences for attributes of Keras and torch that have no name here, by the class and the attribute."""


METHODS: Final[Mapping[str, str]] = MappingProxyType({
    "forward": "call", "update_state": "update", "reset_state": "reset", "reset_states": "reset", "call": "each",
    "update_step": "increment", "step": "increment",
})  # fmt: skip
"""Methods that classes of Keras and torch define, with the one that does the same in classes for here."""


def attribute_here(cls: type, name: str) -> str:
    """Return a clause for an attribute of Keras or torch that objects of a class lack, "" for any other name."""
    for base in cls.__mro__:
        key = f"{base.__name__}.{name}"
        if key in ATTRIBUTES:
            return f"; here it is {ATTRIBUTES[key]}"
        if key in ABSENT:
            return f"; {ABSENT[key]}"
    return ""
