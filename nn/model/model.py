"""The model, which a person builds, trains, evaluates and saves; that of values; and parts, for split learning."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

import numpy as np

from nn import arguments, registry, tensor_files
from nn.activation.activation import Linear
from nn.arrays import BATCH, Array, DType, Shape, all_finite, as_array, is_rows
from nn.callback.callback import Callback
from nn.data import DataFeeder
from nn.extension import checked_call, level_of_user, misfit
from nn.layer.layer import Layer, name_layers
from nn.model import model_file
from nn.model.batches import ArraySource, Batch, as_type, check_finite
from nn.model.class_weights import ClassWeight, weights_by_number
from nn.model.history import History, Results
from nn.model.network import check_names, freeze, losses_within, trace
from nn.model.scored_network import evaluation_source, split_validation, training_source
from nn.model.section import FragmentRunner, Section
from nn.model.trained_network import TrainedNetwork
from nn.model.training import Training, where_not_finite
from nn.plan.plan import OnGradient
from nn.registry import CustomObjects
from nn.tensor_files import ModelFileError
from nn.value.graph import Graph
from nn.value.value import Node, Value, Variable

_Kind = TypeVar("_Kind", bound="Model")

if TYPE_CHECKING:
    from nn.dataset.plan.kinds import UnknownTexts
    from nn.dataset.transforms.buckets import Buckets
    from nn.model.functional import Ends, Entries
    from nn.value.graph import Placeholder

EPOCHS = 4
"""How many epochs `fit` trains if it is not told."""

VALIDATED = 1024
"""Samples that `fit` evaluates at a time."""


class Model(
    TrainedNetwork,
    free=("export", "fit", "split", "load", "from_bytes", "train_on_batch", "test_on_batch", "predict_on_batch"),
    uncalled=MappingProxyType(
        {
            **dict.fromkeys(("train_step", "compute_loss"), "add_loss() and loops of compute_gradients() do what it is for"),
            **dict.fromkeys(("test_step", "predict_step"), "evaluate() and predict() compute what call() makes"),
        }
    ),
):
    """A function with trainable variables, built once from layers and operators.

    A subclass gives `call(x)`, which combines the input with layers and variables, and may give `trainable_variables()`;
    its order is then that of the ids. Every random number comes from `seed`; `dtype` is float32 or float64.

    >>> class Line(nn.model.Model):
    ...     def __init__(self):
    ...         super().__init__([-1, 1])
    ...         self.w, self.b = nn.Variable([1, 1]), nn.Variable([1])
    ...     def call(self, x):
    ...         return x @ self.w + self.b
    >>> model = Line()
    >>> model.setup(nn.loss.MSELoss())
    >>> model.predict([[1.0], [2.0]]).shape
    (2, 1)
    """

    # The class itself makes a functional model; subclasses are checked by their constructors.
    @overload
    def __new__(
        cls: type[Model], inputs: Entries, outputs: Ends, name: str | None = None, *, seed: int = 0, dtype: DType = "float32"
    ) -> Functional: ...

    @overload
    def __new__(cls: type[_Kind], *args: Any, **keywords: Any) -> _Kind: ...

    def __new__(cls: type[_Kind], *args: Any, **keywords: Any) -> _Kind:
        """Make a functional model of `Model(inputs, outputs)`; other models are subclasses."""
        if cls is Model:
            problem = misfit(Functional, args, keywords, cls.__name__)
            if problem is not None:
                other = "; a model of layers, one after the other, is SequentialModel([-1, 64], layers)" if not args else ""
                raise TypeError(f"{problem}{other}")
            made: _Kind = object.__new__(Functional)  # type: ignore[assignment]
            return made
        return object.__new__(cls)

    @checked_call
    def fit(
        self,
        x: Any,
        label: Any = None,
        epoch: int | None = None,
        batch_size: int = 64,
        validation_data: tuple[Any, ...] | DataFeeder | Iterable[Any] | None = None,
        callbacks: Iterable[Callback] | None = None,
        verbose: int | Literal["auto"] = 1,
        *,
        epochs: int | None = None,
        until_epoch: int | None = None,
        validation_split: float = 0.0,
        shuffle: bool = True,
        sample_weight: Any = None,
        class_weight: ClassWeight = None,
        steps_per_epoch: int | None = None,
        seed: int | None = None,
        stop_on_nan: bool = True,
        buckets: Buckets | Sequence[int] | None = None,
    ) -> History:
        """Train for some more epochs, or until there are as many in all; return the history of all.

        The last batch may be smaller; every sample weighs the same in the results. A model that was trained before goes on
        where it stopped, as if it never had.

        Args:
            x: array of samples, for several inputs a list, or a dict by name, dealt in batches. Without `label` a `DataFeeder`
                or an iterable of batches (x, label) or (x, label, weight), in an order of its own.
            label: array of their labels.
            epoch, epochs: how many more epochs, two names of one argument; by default 4.
            batch_size: samples of a batch.
            validation_data: (x, label), (x, label, weight) or a feeder.
            callbacks: are told of epochs and batches, in their order.
            verbose: 0 for no progress.
            until_epoch: how many epochs in all, in place of `epoch`. A run that may be killed and continued says this: as often
                as it starts, it ends with the same epoch.
            validation_split: share of the samples that is set aside, the last ones before any shuffling.
            shuffle: whether every epoch has a new order of the samples.
            sample_weight: weights of the samples (samples,). They multiply the losses; the sum of these is still divided by
                the number of samples. Metrics do not weigh, but for those in `compile(weighted_metrics=)`.
            class_weight: {class: weight}, alike; of several outputs {output: {class: weight}}.
            steps_per_epoch: batches of an epoch from an iterable, which may be endless. Where they end before, the epoch is
                shorter and a warning says so.
            seed: keys the order of the samples and dropout and is recorded in the history; by default it is that of the last
                `fit`, at first the model's.
            stop_on_nan: whether a loss or a gradient that is not finite ends training.
            buckets: lengths that rise, by which padded sequences of like lengths come into a batch, without the padding that
                all of it have: see `nn.dataset.transforms.Buckets`, which a job takes.

        Raises:
            FloatingPointError: for a loss or a gradient that is not finite, before it changes the parameters. It names the
                batch (from 1) and the first part that is not finite: a sample by its number in `x`, else a layer or variable.
            ValueError: for validation data that are not finite.
        """
        if epochs is not None and epoch is not None:
            raise ValueError(f"fit() takes 'epoch' or 'epochs', which is the same, got both, {epoch} and {epochs}")
        epochs = self._epochs("epoch" if epochs is None else "epochs", epoch if epochs is None else epochs, until_epoch)
        arguments.integer("fit()", "batch_size", batch_size, minimum=1)
        if seed is None:
            # A run that goes on draws as the run before did.
            seed = self.seed if self._history.seed is None else self._history.seed
        arguments.integer("fit()", "seed", seed, minimum=0)
        arguments.flag("fit()", "shuffle", shuffle)
        arguments.flag("fit()", "stop_on_nan", stop_on_nan)
        silent = _is_silent(verbose)
        callbacks = _callbacks(callbacks)
        # Before data are read, since nothing that was changed in place would have an effect.
        self._check_structure()
        self._refuse_if_marked_anew("fit()")
        names = x
        if label is None and self._needs_no_labels(x):
            label = ()
        if label is not None:
            x, label = self._rows_as_samples("fit() 'x'", x), self._labels_of(label)
        weights = None if class_weight is None else self._class_weights(class_weight, label)
        data: tuple[Any, Any, Any] = (x, label, sample_weight)
        kept = 0
        if arguments.number("fit()", "validation_split", validation_split, 0, 1):
            if validation_data is not None:
                raise ValueError("fit() takes 'validation_data' or 'validation_split', got both")
            data, validation_data = split_validation(*data, validation_split)
            kept = len(self._take_samples(data[0])[0])
        source = training_source(
            self, data, weights, batch_size, seed, shuffle=shuffle, steps=steps_per_epoch, epoch=self.epochs_trained
        )
        if buckets is not None:
            if not isinstance(source, ArraySource):
                raise ValueError("fit() takes 'buckets' with arrays; a feeder deals batches of any lengths")
            source.cuts = self._cuts(buckets, source.inputs)
        validation = None
        if validation_data is not None:
            name = "fit() 'validation_data'"
            validation_data = self._known(validation_data)
            # States go on from the batches of training, so these have one size with them.
            size = batch_size if self.graph.carried else VALIDATED
            validation = evaluation_source(self, validation_data, name, size, passes=epochs, first=kept)
            if stop_on_nan and isinstance(validation, ArraySource):
                # Before the training begins, as an epoch would be lost.
                for batch in validation.deal(0):
                    check_finite(name, batch, self._input_names)
        # Behind all checks: a call that is refused leaves no trace in the model.
        self._remember_names(names)
        if not self.epochs_trained and isinstance(source, ArraySource) and len(source.inputs) == 1:
            from nn.model.scale import unscaled  # noqa: PLC0415 - workers of a job do not look

            columns = None if self._inputs is None else self._inputs._feature_names
            for told in unscaled(self, source.inputs[0], columns=columns):
                warnings.warn(f"fit() 'x': {told}", UserWarning, stacklevel=level_of_user())
        for callback in callbacks:
            callback.model = self
            callback._fit_params = {"epoch": epochs, "batch_size": batch_size, "steps": source.steps, "seed": seed}
        training = Training(self, callbacks, seed, stop_on_nan=stop_on_nan, silent=silent)
        # An earlier `fit` may have been stopped.
        self._history.seed, self.stop_training = seed, False
        with self.callback_states.attached(callbacks):
            training.run(epochs, source, validation)
        return self._history

    @checked_call
    def evaluate(
        self,
        x: Any,
        label: Any = None,
        batch_size: int = 1024,
        *,
        sample_weight: Any = None,
        buckets: Buckets | Sequence[int] | None = None,
    ) -> dict[str, float]:
        """Return {'Loss': ..., <metric>: ...} over all samples, the same for any batch size.

        Args:
            x: an array, or rows of a table where the model has `inputs`; without `label` rows with the column of the labels,
                a tuple (x, label), a `DataFeeder` or an iterable of batches, as in `fit`.
            label: the labels.
            batch_size: how many samples are computed at a time.
            sample_weight: of each sample ``(n,)``.
            buckets: lengths that rise, as in `fit`: padded sequences of like lengths are computed together, without the padding
                that all of them have. Results are the same where a mask leaves padding out.

        Raises:
            ValueError: naming the first sample that is not finite; as `Plan.encode`.
        """
        plan = self.inputs
        if label is None and self._needs_no_labels(x):
            label = ()
        if label is None and plan is not None and plan.columns and is_rows(x):
            x, label = plan.labelled(x)
        elif label is None:
            x = self._known(x)
        else:
            x, label = self._known((x, label))
        return super().evaluate(x, label, batch_size, sample_weight=sample_weight, buckets=buckets)

    @checked_call
    def predict(
        self,
        x: Any,
        batch_size: int = 1024,
        *,
        unknown: UnknownTexts | None = None,
        buckets: Buckets | Sequence[int] | None = None,
    ) -> Any:
        """Return the output for every sample, an array; of several outputs a list, or where they are named by a dict, a dict.

        Args:
            x: samples ``(n, ...)``; where the model has `inputs`, also rows of a table, by column name.
            batch_size: how many samples are computed at a time.
            unknown: treatment of a category of the rows that the plan does not have: "error", or "none" of the categories;
                None for that of the plan.
            buckets: as in `evaluate`, for models with one result for each sample.

        Raises:
            ValueError: naming the first sample that is not finite; as `Plan.encode`.
        """
        if self._inputs is None and unknown is None and buckets is None:
            found = self._predict_again(x, batch_size)
            if found is not None:
                return found
        return super().predict(self._rows_as_samples("predict() 'x'", x, unknown), batch_size, buckets=buckets)

    def _needs_no_labels(self, x: Any) -> bool:
        """Return whether all of the loss is computed from the samples, which are given as arrays."""
        return self._adds_losses and not self._scored_names and not isinstance(x, (DataFeeder, Iterator))

    @checked_call
    def train_on_batch(self, x: Any, label: Any = None, sample_weight: Any = None) -> Results:
        """Train on one batch, as a step of `fit` does, and return its loss and metrics by name, as they were before the step.

        Args:
            x: samples, as in `fit`.
            label: their labels.
            sample_weight: of each sample ``(n,)``, as in `fit`.

        Raises:
            FloatingPointError: for a loss or gradients that are not finite, with the parameters unchanged.
        """
        batch = self._make_batch(self._rows_as_samples("train_on_batch() 'x'", x), self._labels_of(label), sample_weight)
        # What is not finite is told below, not by warnings of NumPy.
        with np.errstate(all="ignore"):
            loss, seen = self.runner.step(batch.x, batch.label, None, self._key_or_next(None), batch.weight)
            if not math.isfinite(loss) or not all_finite(self.store.gradients):
                where = where_not_finite(self, batch, loss)
                raise FloatingPointError(f"train_on_batch() stopped: the loss is {loss}; {where}")
            found = self._results_of(batch, loss, seen)
            # In the order in which backward completes the gradients, as in `fit`.
            for variable in reversed(self.store.variables):
                self.optimizer.gradient_ready(variable, 0)
            self.apply_gradients()
        return found

    @checked_call
    def test_on_batch(self, x: Any, label: Any = None, sample_weight: Any = None) -> Results:
        """Return loss and metrics of one batch by name.

        Args:
            x, label, sample_weight: as of `train_on_batch`.

        Raises:
            ValueError: naming the first sample that is not finite.
        """
        batch = self._make_batch(self._rows_as_samples("test_on_batch() 'x'", x), self._labels_of(label), sample_weight)
        return self._measure_batches([batch], "test_on_batch() 'x'")

    @checked_call
    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for one batch of samples."""
        return super().predict(self._rows_as_samples("predict_on_batch() 'x'", x), batch_size=sys.maxsize)

    def _results_of(self, batch: Batch, loss: float, seen: tuple[Array, ...]) -> Results:
        aim = deepcopy(self._aim)
        for place, metric in zip(aim.seen, aim.metrics, strict=True):
            metric.reset()
            weight = self.runner.counted_weight(place, None if batch.weight is None else batch.weight[place])
            metric._weigh(*self.runner.counted(place, batch.label[place], seen[place]), weight)
        return Results(aim.results(loss, self.runner.losses))

    def _known(self, data: Any) -> Any:
        """A pair of rows and labels as samples and labels, all else as it is."""
        if not isinstance(data, tuple) or len(data) not in (2, 3):
            return data
        x, label, *weight = data
        return (self._rows_as_samples("'x'", x), self._labels_of(label), *weight)

    def _class_weights(self, given: Any, label: Any) -> Any:
        """Return the weights of classes by their numbers; of several outputs a dict of them by name."""
        several = len(self._output_names) > 1
        each = given if several and isinstance(given, Mapping) else {"": given}
        if label is None and any(isinstance(own, str) for own in each.values()):
            raise ValueError("fit() takes class_weight='balanced' with arrays; of a feeder not all labels are known")
        if not several:
            return weights_by_number(given, label, None if self.inputs is None else self.inputs.classes)
        labels = {} if label is None else dict(zip(self._scored_names, self._labels_in_order(label), strict=True))
        return {
            # Other objects and unknown names are refused where the outputs are looked at.
            name: weights_by_number(own, labels.get(name), None)
            if isinstance(own, (Mapping, str)) and name in self._scored_names
            else own
            for name, own in each.items()
        }

    def _epochs(self, name: str, epoch: int | None, until_epoch: int | None) -> int:
        """Return how many epochs to train: `epoch` of them, which `name` is the argument for, or those up to `until_epoch`."""
        if until_epoch is None:
            return arguments.integer("fit()", name, EPOCHS if epoch is None else epoch, minimum=1)
        if epoch is not None:
            raise ValueError(f"fit() takes '{name}' (more) or 'until_epoch' (in all), got both, {epoch} and {until_epoch}")
        return max(arguments.integer("fit()", "until_epoch", until_epoch, minimum=0) - self.epochs_trained, 0)

    @checked_call
    def split(self, at: str | int) -> tuple[Fragment, Fragment]:
        """Cut the model in two, each half a model with a copy of its weights, its rule and the rule's state: see `Fragment`.

        `at` is the name of the last layer of the front half, or the number of layers in it, as in `layers[:at]`. Training
        both halves, which exchange activations and their gradient, equals training the whole, bit for bit.

        Raises ValueError where there is no such layer, where another value crosses the cut, naming it, where a variable
        would be on both sides, and for a rule that looks at all parameters at once (`clip_norm`).
        """
        graph = self.graph
        if len(graph.inputs) > 1 or len(graph.outputs) > 1:
            raise ValueError(
                f"split() cuts models of one input and one output, got {len(graph.inputs)} and {len(graph.outputs)}; "
                "Model(model.input, model.output_of(layer)) is a part of a model that shares its weights"
            )
        if graph.carried:
            raise ValueError(
                f"split() cuts models without states between batches, got {graph.carried[0].kept.owner.describe()} with "
                "stateful=True; a state can be an input and an output: initial_state, return_state"
            )
        if isinstance(at, str):
            name = at
        else:
            number = arguments.integer("split()", "at", at, minimum=1)
            if number > len(graph.layers):
                raise ValueError(f"split() 'at' must be at most {len(graph.layers)}, the number of layers, got {number}")
            name = graph.layers[number - 1].name
        if self.rule is not None and self.rule.clip_norm is not None:
            raise ValueError(
                f"split() needs a rule that the halves can apply apart; 'clip_norm' looks at both, got {self.rule}"
            )
        Section(graph, None, name)  # before anything is built: says what is wrong with the cut
        # a fragment is cut from the model that it was cut from, so that parts of parts compute as the whole does
        whole, place = self._whole_and_place()
        whole_shape, begin, end = (graph.placeholder.shape, None, None) if place is None else place.values()
        front = Fragment(_untrained(whole), whole_shape, begin, name)
        front.inputs = self.inputs
        back = Fragment(_untrained(whole), whole_shape, name, end)
        for half in (front, back):
            half.take_over(self)
        # The loss belongs to the half with the output.
        if self.has_loss:
            back.setup(deepcopy(self.loss), *deepcopy(self.metrics), loss_weights=list(self._aim.factors))
        return front, back

    def _whole_and_place(self) -> tuple[Model, dict[str, Any] | None]:
        return self, None

    def _make_part(self, whole_shape: Sequence[int], begin: str | None, end: str | None) -> Fragment:
        return Fragment(self, whole_shape, begin, end)

    def to_bytes(self) -> bytes:
        return model_file.pack(self)

    @checked_call
    def export(self, path: str | os.PathLike[str], format: Literal["onnx"] = "onnx") -> None:
        """Write the model as a file for other programs; see `nn.onnx.save`, which also tells the errors.

        Args:
            path: of the file.
            format: "onnx", the one there is.
        """
        arguments.one_of("export()", "format", format, ("onnx",))
        import_module("nn.onnx").save(self, path)

    @classmethod
    @checked_call
    def from_bytes(cls: type[_Kind], data: bytes | memoryview, custom_objects: CustomObjects | None = None) -> _Kind:
        """Return the model of a file's content: of the class that is named there, which editors take to be this one.

        Args:
            data: bytes of a model file.
            custom_objects: classes that are not part of `nn`, by their name; they are found nowhere else.

        Raises ModelFileError naming the fault of the file.
        """
        model: _Kind = model_file.unpack(data, Model, custom_objects or {})
        return model

    @classmethod
    @checked_call
    def load(cls: type[_Kind], path: str | os.PathLike[str], custom_objects: CustomObjects | None = None) -> _Kind:
        """Return the model of a file; `fit` continues a compiled one where it stopped.

        Its class is the one that is named there; editors take it to be the one this is called on: `SequentialModel.load(path)`.

        Args:
            path: the model file.
            custom_objects: as in `from_bytes`.

        Raises as `from_bytes`, naming the file; OSError where there is none.
        """
        name = arguments.path("load()", "path", path, "a file")
        data = tensor_files.read_file(name)
        try:
            model: _Kind = Model.from_bytes(data, custom_objects)  # type: ignore[assignment]
            return model
        except ModelFileError as error:
            raise ModelFileError(f"The model file {name} cannot be used: {error}") from error


def _is_silent(verbose: object) -> bool:
    """Tell whether `fit` shows nothing: 0 and False; 1, 2, True and "auto", as in Keras, show a line per epoch."""
    if isinstance(verbose, (int, str)) and verbose in (0, 1, 2, "auto"):
        return verbose == 0
    raise ValueError(f"fit() 'verbose' must be 0, 1, 2 or 'auto', got {arguments.short(verbose)}")


def _callbacks(given: Iterable[Callback] | None) -> list[Callback]:
    if given is None:
        return []
    if not isinstance(given, Iterable) or isinstance(given, str):
        hint = f"; write [{type(given).__name__}(...)]" if isinstance(given, Callback) else ""
        raise TypeError(f"fit() 'callbacks' must be a list of callbacks, got {type(given).__name__}{hint}")
    return [arguments.instance("fit()", "callbacks", callback, Callback) for callback in given]


class Fragment(Model, configured=True):
    """Part between two cuts through a model, made by `Model.split`: itself a model, with weights and a rule of its own.

    One step of training sends activations one way and their gradient back; both are valid until the next run.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(8), nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> front, back = model.split("dense_1")
    >>> activations = front.forward(np.eye(4))
    >>> loss, prediction = back.compute_gradients(activations, [0, 1, 2, 0])
    >>> gradient = front.backward(back.input_gradient)
    >>> front.apply_gradients(); back.apply_gradients()

    With equal keys (seed, epoch, batch, block) both halves draw the numbers that the whole draws, for dropout. A fragment can
    be split again; one in the middle passes `forward` on and `backward` back.

    Args:
        whole: the structure it was cut from.
        whole_shape: shape of the input of the whole, -1 or None for the batch.
        begin: layer with the result that goes in; None: the input of the whole.
        end: layer with the result that comes out; None: the output of the whole.
    """

    def __init__(
        self, whole: Model, whole_shape: Sequence[int | None], begin: str | None = None, end: str | None = None
    ) -> None:
        self.whole: Model = arguments.instance(self, "whole", whole, Model)
        self.begin, self.end = begin, end
        outline = whole._outline_graph(arguments.shape(self, "whole_shape", whole_shape, unknown=1))
        self.whole_shape: Shape = outline.placeholder.shape
        self._section = Section(outline, begin, end)
        super().__init__(self._section.entry.shape, seed=whole.seed, dtype=whole.dtype.name)

    def call(self, x: Value) -> Value:
        return self._section.copy(x)

    def trainable_variables(self) -> list[Variable]:
        if self.built:
            return super().trainable_variables()
        return [variable for variable in self.whole.trainable_variables() if variable in self.graph.variables]

    @property
    def runner(self) -> FragmentRunner:
        if not isinstance(self._runner, FragmentRunner) or self._outdated:
            self._moves = self.store.moves
            self._runner = FragmentRunner(self.graph, self._objective, self.store.dtype, self._section.whole())
        return self._runner

    @property
    def input_gradient(self) -> Array:
        """The gradient of the input, to be sent back after `compute_gradients` or `backward`; valid until the next run."""
        return self.runner.input_gradient()

    def forward(self, x: Array, key: tuple[int, ...] | None = None) -> Array:
        """Return the output in training, to be sent on; `backward` follows.

        Args:
            x: the input.
            key: as of `compute_gradients`.
        """
        return self.runner.forward(as_type(self._take_samples(x)[0], self.dtype), self._key_or_next(key))

    def backward(self, gradient: Array, on_gradient: OnGradient | None = None) -> Array:
        """Write all gradients into the store, given that of the output; return that of the input, to be sent back.

        Args:
            gradient: that of the loss for the output, of its shape.
            on_gradient: called with each variable when its gradient is complete, so that it can be sent while others are
                computed.

        Raises ValueError without a `forward` just before, and for a gradient of another shape.
        """
        self.runner.backward(as_array("backward() 'gradient'", gradient), on_gradient)
        return self.input_gradient

    def _whole_and_place(self) -> tuple[Model, dict[str, Any] | None]:
        return self.whole, {"whole_shape": list(self.whole_shape), "begin": self.begin, "end": self.end}

    def take_over(self, model: Model) -> None:
        """Become the trained part of `model`: copies of its weights, rule and state, and its count of epochs."""
        values = {variable.name: variable for variable in model.store.everything}
        # not by `setup`: the variables are those of the other model, frozen ones included, and not drawn anew
        graph = trace(self, self._section.entry.shape)
        freeze(graph, [variable.name for variable in graph.variables if values[variable.name].frozen])
        self._allocate(graph)
        for variable in self.store.everything:
            variable.set_value(values[variable.name].value)
        self.epochs_trained, self.fit_history().seed = model.epochs_trained, model.fit_history().seed
        if model.rule is not None:
            sources = [values[variable.name] for variable in self.store.variables]
            from nn.model.rule_state import state_for  # noqa: PLC0415 - for models that are cut

            # Its settings; the state is replaced in the next line.
            rule = deepcopy(model.rule)
            rule.load_state_dict(state_for(model.rule, model.store.variables, sources))
            self._adopt_rule(model.op_type, rule)


class Functional(Model, configured=True):
    """Model of the values between inputs and outputs. `nn.model.Model(inputs, outputs)` makes one.

    Layers that several models share have the same variables in all of them, which lie in memory once: an encoder, a decoder
    and the whole of both are trained by whichever is trained. A model is called like a layer, on values; on arrays it predicts.

    >>> title, body = nn.Input([-1, 20], name="title"), nn.Input([-1, 50], name="body")
    >>> x = nn.layer.Concatenate()([nn.layer.Dense(8, "relu")(title), nn.layer.Dense(8, "relu")(body)])
    >>> urgent, kind = nn.layer.Dense(1, "sigmoid", name="urgent")(x), nn.layer.Dense(4, "softmax", name="kind")(x)
    >>> model = nn.model.Model([title, body], [urgent, kind])
    >>> model.compile("adam", ["binary_crossentropy", "categorical_crossentropy"], loss_weights={"urgent": 0.5})
    >>> [output.shape for output in model.predict({"title": np.zeros((3, 20)), "body": np.zeros((3, 50))})]
    [(3, 1), (3, 4)]

    Args:
        inputs: values of `nn.Input`: one, a list, or a dict by name. Several have the names of `nn.Input`, else input_1, ...
        outputs: values computed from them: one, a list, or a dict by name. The names of others are those of their layers.
        name: name by which the model stands in others.
        seed: seed of first weights and masks, at least 0.
        dtype: type of variables and results, float32 or float64.
        calls: of a model that a file describes, the calls of layers: inputs are then pairs of name and shape, and outputs pairs
            of name and number of a call.
        added: numbers of calls with results that are part of the loss, as `add_loss` says.
        by_name: whether `predict` returns a dict, as it does where `outputs` are one.

    Raises ValueError for outputs that depend on other inputs, or on none of them, and for inputs that no output depends on.
    """

    #: Arguments that a model file gives.
    _of_files: ClassVar[tuple[str, ...]] = ("calls", "added", "by_name")

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        name: str | None = None,
        calls: Sequence[Any] | None = None,
        added: Sequence[int] = (),
        by_name: bool = False,
        *,
        seed: int = 0,
        dtype: DType = "float32",
    ) -> None:
        self._by_name = arguments.flag(self, "by_name", by_name) or (calls is None and isinstance(outputs, Mapping))
        from nn.model.functional import ends_of, entries_of  # noqa: PLC0415 - for functional models: others are made without

        losses: list[Node] = []
        if calls is not None:
            from nn.model.calls import rebuilt  # noqa: PLC0415 - for models that a file describes

            inputs, outputs, losses = rebuilt(inputs, outputs, calls, added)
        entries, names = entries_of(inputs)
        ends, self._ends = ends_of(outputs)
        given_name = arguments.part_name("Model", name)
        super().__init__(entries[0].shape, seed=seed, dtype=dtype)
        self.given_name = given_name
        self._names = names
        if calls is None:
            losses = losses_within(Graph(entries, ends))
        self._take_graph(Graph(entries, [*ends, *losses], len(losses)))

    @property
    def name(self) -> str:
        """The name by which it stands in other models."""
        return self.given_name or type(self).__name__.lower()

    @property
    def input(self) -> Placeholder | Any:
        """The input, a value; of several a list."""
        entries = self.graph.inputs
        return entries[0] if len(entries) == 1 else list(entries)

    @property
    def output(self) -> Value | Any:
        """The output, a value; of several a list."""
        ends = self._outputs()
        return ends[0] if len(ends) == 1 else list(ends)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, in the order of their first use."""
        return tuple([layer for layer in self.graph.layers if isinstance(layer, Layer)])

    def call(self, x: Any) -> Value:
        """Return the first output for values in place of the inputs."""
        return self.graph.applied(list(x) if isinstance(x, (list, tuple)) else [x])[0]

    def add_loss(self, value: Value) -> None:
        """Make a value of the graph part of the loss, in training and in `evaluate`, such as a penalty of activations.

        Args:
            value: a number for each sample, ``(-1,)`` or ``(-1, 1)``, of which the mean is added, or a single one, ``()``, as
                ``((x - y) ** 2).mean()`` is. It is computed from inputs of the model. Models that this one is called in have
                it as well.

        Raises:
            ValueError: for other shapes, a value of other inputs, and once the model has its variables.
        """
        arguments.instance("add_loss()", "value", value, Value)
        if self.built:
            raise ValueError("add_loss() must come before compile(), setup() and predict(): the graph is built by then")
        if value.shape not in ((), (1,), (BATCH,), (BATCH, 1)):
            raise ValueError(
                f"add_loss() 'value' must be one number for each sample or for the batch, got shape {value.shape}; "
                "value.sum(axis=...) or value.mean() make one"
            )
        # A value that is no node, or an output already, gets a node of its own.
        node = value if isinstance(value, Node) and value not in self.graph.outputs else value.apply(Linear())
        self._take_graph(Graph(self.graph.inputs, [*self.graph.outputs, node], self.graph.added + 1))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments in the form of a file: the calls of layers."""
        from nn.model.calls import described  # noqa: PLC0415 - for model files

        return {
            "name": self.given_name or None,
            "by_name": self._by_name,
            **described(self.graph, self._names, self._ends),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}(inputs={list(self._names)}, outputs={list(self._ends)})"

    @property
    def store(self) -> Any:
        """The variables' memory, which is made when it is first needed."""
        if self._store is None:
            self._allocate(self.graph)
        return super().store

    @property
    def _input_names(self) -> Sequence[str]:
        return self._names

    @property
    def _output_names(self) -> Sequence[str]:
        return self._ends

    @property
    def _adds_losses(self) -> bool:
        return bool(self.graph.added)

    def _rows_as_samples(self, owner: str, x: Any, unknown: UnknownTexts | None = None) -> Any:
        if self._inputs is None and (len(self._names) > 1 or isinstance(x, Mapping)):
            return x  # arrays by input
        if len(self._names) > 1:
            raise ValueError(f"{type(self).__name__} 'inputs', a plan of columns, is for a model of one input")
        return super()._rows_as_samples(owner, x, unknown)

    def _take_samples(self, x: Any) -> tuple[Array, ...]:
        self.store  # noqa: B018 - makes it
        return super()._take_samples(x)

    def _trace(self, input_shape: Shape) -> Graph:
        return self.graph

    def _build_if_known(self) -> None:
        self._allocate(self.graph)

    def _allocate(self, graph: Graph) -> None:
        try:
            super()._allocate(graph)
        finally:
            self._graph = graph

    def _outputs(self) -> tuple[Node, ...]:
        return self.graph.outputs[: len(self.graph.outputs) - self.graph.added]

    def _shown(self, outputs: Sequence[Array]) -> Any:
        return dict(zip(self._ends, outputs, strict=True)) if self._by_name else super()._shown(outputs)

    def _take_graph(self, graph: Graph) -> None:
        unused = [
            name
            for name, entry in zip(self._names, graph.inputs, strict=True)
            if not any(entry in node.inputs for node in graph.nodes)
        ]
        if unused:
            raise ValueError(f"Model 'inputs' must be values that the outputs depend on, but none depends on '{unused[0]}'")
        name_layers(graph.layers, again=True)
        check_names(graph)
        self._graph = graph


def _untrained(whole: Model) -> Model:
    made: Model = registry.construct(type(whole), registry.describe_arguments(whole), registry.custom_classes(whole))
    # They are no part of the configuration that makes it.
    made.seed, made.dtype = whole.seed, whole.dtype
    return made
