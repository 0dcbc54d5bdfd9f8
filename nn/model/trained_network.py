"""A network that is trained: rule, optimizer, history. Callbacks, the training loop and a model file see this of a model."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from nn import arguments, tensor_files
from nn.arguments import class_of
from nn.arrays import DType, MaybeNone
from nn.extension import checked_call, level_of_user, renamed
from nn.gradient_descent import OptimizerName
from nn.gradient_descent.interface import IGradientDescent
from nn.metric.metric import Metric
from nn.model.history import CallbackStates, History
from nn.model.inputs import Planned
from nn.model.objective import together, weighted
from nn.model.scored_network import Factors, Losses, Metrics
from nn.optimizer.interface import GDOptimizer, IOptimizer, OpContainer
from nn.tensor_files import WEIGHTS
from nn.value.graph import Graph

if TYPE_CHECKING:
    from nn.transfer import Loaded


_READERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        **dict.fromkeys(
            (".keras", ".h5", ".hdf5"), ("Keras", "; nn reads weights of Keras by load_weights(), and writes none")
        ),
        **dict.fromkeys((".pt", ".pth"), ("torch", "")),
        **dict.fromkeys((".pb", ".tflite"), ("TensorFlow", "")),
        **dict.fromkeys((".npy", ".npz"), ("numpy.load", "")),
        **dict.fromkeys((".joblib", ".pickle", ".pkl"), ("pickle", "")),
        ".onnx": ("a runtime of ONNX", "; export(path) writes ONNX"),
    }
)
"""Endings of the files of others: what would not read a file of this package, and what to do instead."""


def _warn_of_name(path: str) -> None:
    """Warn of a name that promises a file of another library, once it is written: a trained model is not to be lost."""
    name = os.path.basename(path)
    stem, ending = os.path.splitext(name)
    if (known := _READERS.get(ending.lower())) is not None:
        reader, instead = known
        warnings.warn(
            f"{name!r} is written as safetensors, in the form of nn, which {reader} does not read: "
            f"call it {stem.removesuffix('.weights')}.model{instead}",
            UserWarning,
            stacklevel=level_of_user(),
        )


class TrainedNetwork(
    Planned,
    free=("compile", "clear", "load_weights"),
    fixed=("stop_training", "epochs_trained", "op_type", "rule", "callback_states", "_optimizer", "_history"),
    internal=(
        "_adopt_rule",
        "apply_gradients",
        "_whole_and_place",
        "_make_part",
        "to_bytes",
        "save",
        "save_weights",
        "fit_history",
    ),
    passes={"_adopt_rule": (3,)},
    settable=("stop_training", "callback_states"),
    unlisted=("callback_states", "fit_history"),
    remedies=dict.fromkeys(
        ("rule", "op_type", "optimizer"),
        "call compile(optimizer); the learning rate of a rule can be set, model.rule.learn_rate",
    ),
):
    """Part of `Model` without `fit`, which is built on it."""

    stop_training: bool
    epochs_trained: int
    """How many epochs the model was trained. May be set: `fit(until_epoch=)` and callbacks count from it."""

    op_type: type[IOptimizer]
    rule: IGradientDescent | MaybeNone
    """The rule, a copy of that of `compile`, which this model has to itself; None before."""
    callback_states: CallbackStates
    _optimizer: IOptimizer | None
    _history: History

    def __init__(self, input_shape: Sequence[int | None] | None = None, *, seed: int = 0, dtype: DType = "float32") -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.stop_training = False
        self.epochs_trained = 0
        self.op_type = GDOptimizer
        self.rule = None
        self.callback_states = CallbackStates()
        self._optimizer = None
        self._optimizer_moves = 0
        self._rated: IGradientDescent | None = None
        self._first_rate: Any = 0.0
        self._history = History()

    def _take(self, name: str, value: Any) -> bool:
        if name != "epochs_trained":
            return super()._take(name, value)
        self._keep(epochs_trained=arguments.integer(self, name, value, minimum=0))
        return True

    @property
    def optimizer(self) -> IOptimizer:
        """The optimizer made from the arguments of `compile`; raises ValueError before."""
        if self.rule is None:
            raise ValueError(f"{type(self).__name__} is not compiled; call compile() with a rule, e.g. ADAMOptimizer")
        store = self.store  # it may be made anew, and the optimizer with it
        if self._optimizer is None or self._optimizer_moves != store.moves:
            self._optimizer, self._optimizer_moves = self.op_type(self.rule, store), store.moves
        return self._optimizer

    @checked_call
    def compile(
        self,
        optimizer: type[IGradientDescent] | IGradientDescent | OpContainer | OptimizerName,
        loss: Losses = None,
        metrics: Metrics = (),
        loss_weights: Factors = None,
        weighted_metrics: Metrics = (),
    ) -> None:
        """Say how to train: a rule, its class or its word, or an `OpContainer`. The model's own rule, a copy, is `model.rule`.

        With `loss` it calls `setup` as well, so that one step does all: `compile("adam", "mse", ["relative_error"])`.

        Layers that were frozen or thawed since the last call are so from here on. A rule that is given begins afresh; `setup`
        alone, and `compile(model.rule)`, keep the state of the rule for all variables that go on being trained.

        Args:
            optimizer: the rule.
            loss: as in `setup`; None leaves losses and metrics as they are, or of a model with `add_loss` is none besides.
            metrics: a list, or for several outputs a list of lists, or a dict of lists by their names.
            loss_weights: as in `setup`.
            weighted_metrics: metrics like `metrics` in which samples count by `sample_weight` and `class_weight`, see
                `nn.metric.Weighted`.
        """
        self._check_constructed()
        self._refuse_in_training("compile()")
        for name, given in (("metrics", metrics), ("weighted_metrics", weighted_metrics)):
            if isinstance(given, (str, Metric)):
                raise TypeError(f"compile() '{name}' must be a list, got {arguments.short(given)}; write [...]")
        measured: Any = metrics if isinstance(metrics, Mapping) else list(metrics)
        weighing = weighted_metrics if isinstance(weighted_metrics, Mapping) else list(weighted_metrics)
        measured = together(measured, weighted(weighing))
        if measured and loss is None:
            raise ValueError("compile() 'metrics' must come with a 'loss'; setup(loss, *metrics) sets them without a rule")
        if isinstance(optimizer, str):
            optimizer = class_of("compile()", "optimizer", optimizer, "nn.gradient_descent")
        container = OpContainer(GDOptimizer, optimizer) if isinstance(optimizer, type) else optimizer
        if isinstance(container, OpContainer):
            self._adopt_rule(container.op_type, container.rule())
        else:
            # A rule keeps state, which two models must not share.
            self._adopt_rule(GDOptimizer, deepcopy(arguments.instance("compile()", "optimizer", container, IGradientDescent)))
        # A model that adds losses by itself trains by these alone.
        if loss is not None or (self._adds_losses and not self.has_loss):
            one_by_one = (measured,) if isinstance(measured, Mapping) else measured
            try:
                self.setup(loss, *one_by_one, loss_weights=loss_weights)
            except (TypeError, ValueError) as error:
                # the caller wrote compile(), and errors name the call that was written
                error.args = (str(error).replace("setup()", "compile()", 1),)
                raise
        elif loss_weights is not None:
            raise ValueError("compile() 'loss_weights' must come with a 'loss'")
        elif self.built:
            self._settle_trained()

    def _adopt_rule(
        self, op_type: type[IOptimizer], rule: IGradientDescent | None, optimizer: IOptimizer | None = None
    ) -> None:
        """Train with this very rule, state included, by an optimizer of this type: `optimizer`, where there is one already."""
        self._keep(op_type=op_type, rule=rule)
        self._optimizer, self._optimizer_moves = optimizer, self._store.moves if self._store is not None else 0
        if rule is not None and rule is not self._rated:
            self._rated, self._first_rate = rule, rule.argument("learn_rate")

    def apply_gradients(self) -> None:
        """Update parameters and buffers once, by the gradients and changes that `compute_gradients` wrote into the store.

        Raises RuntimeError where the optimizer waits for other workers.
        """
        # An optimizer that trains alone waits for nothing, so this loop has no turn.
        for awaited in self.optimizer.finish_batch():
            raise RuntimeError(f"{type(self.optimizer).__name__} waits for variable {awaited}, but there is no exchange")

    @abstractmethod
    def _whole_and_place(self) -> tuple[TrainedNetwork, dict[str, Any] | None]:
        """Return the model with the constructor that a file describes, and which part of it this is: None for all of it."""

    @abstractmethod
    def _make_part(self, whole_shape: Sequence[int], begin: str | None, end: str | None) -> TrainedNetwork:
        """Return an untrained part of this model, which is not built, between the results of two layers.

        Args:
            whole_shape: shape of the input of this model, with -1 for the batch.
            begin: layer with the result that goes in; None: the input of this model.
            end: layer with the result that comes out; None: the output of this model.
        """

    def _allocate(self, graph: Graph) -> None:
        before = [] if self._store is None else self._store.variables
        again = self._store is not None
        super()._allocate(graph)
        if again:  # other variables are trained: the rule keeps the state of those that still are
            self._optimizer = None
            if self.rule is not None:
                from nn.model.rule_state import state_for  # noqa: PLC0415 - for layers that are frozen late

                self.rule.load_state_dict(state_for(self.rule, before, self.store.variables))

    def _refuse_in_training(self, owner: str) -> None:
        if self.callback_states.followed and self._marked_anew(self._graph):
            raise ValueError(
                f"{owner} of {type(self).__name__} cannot change which variables are trained while a training runs, of which "
                "optimizer, exchange and checkpoints hold these; end it first (stop_training = True), then fit() again"
            )

    if not TYPE_CHECKING:  # editors offer no former names
        adopt = renamed("_adopt_rule")
        origin = renamed("_whole_and_place")
        part = renamed("_make_part")

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the content of a model file: structure, weights, loss, metrics, history, and the rule with its state."""

    @checked_call
    def save(self, path: str | os.PathLike[str], inputs: Any = None) -> None:
        """Write a model file, safetensors with a JSON configuration; an older file is replaced in one step or stays.

        The name may be any; one of another library's files, such as `x.keras` or `x.pt`, is warned of.

        Args:
            path: of the file.
            inputs: the plan of columns that rows are predicted by, as `inputs` takes it: a plan, a data set, or a list of one
                of these and fitted transforms. The model keeps it. None keeps the plan that the model has.
        """
        target = arguments.new_path("save()", "path", path, "a file")
        if inputs is not None:
            self.inputs = inputs
        tensor_files.write_file(target, self.to_bytes())
        _warn_of_name(target)

    @checked_call
    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the weights alone, trained and not, by the names of their variables, for `load_weights`; safetensors.

        Raises:
            ValueError: before `setup`.
        """
        target = arguments.new_path("save_weights()", "path", path, "a file")
        self._check_structure()
        values = {variable.name: variable.value for variable in self.store.everything}
        tensor_files.write_file(target, tensor_files.dump(values, {"format": WEIGHTS}))
        _warn_of_name(target)

    @checked_call
    def load_weights(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        names: Mapping[str, str | None] | Literal["order"] | None = None,
        partial: bool = False,
        layout: Literal["nn", "torch", "keras"] | None = None,
    ) -> Loaded:
        """Take weights of a file or a mapping, by names; all of them fit, or nothing is changed.

        Layers that bear other names than in a source of torch or Keras are known again by kind and shapes; where more than one
        choice would fit, none is made. The state of the rule and the history stay.

        Args:
            source: path of a file of `save_weights` or `save`, of a safetensors file, of the `.safetensors.index.json` of a
                model in several of these, or of a `.weights.h5` or `.keras` file of Keras 3 (which takes h5py); or arrays by
                name, such as a `state_dict`.
            names: for layers of the model, or single variables, their names in the source; None for one leaves it as it is.
                "order" takes layers that fit alike in the order of the source.
            partial: whether it is enough that the model and the source have some in common.
            layout: whose names and axes the source has: "nn", "torch" or "keras"; None: a file tells it, a mapping of tensors
                of torch is "torch", of others "nn".

        Returns:
            The names of variables that were taken and that were kept, and of arrays that are left in the source.

        Raises:
            ValueError: where names or shapes do not fit, and before `setup`; of a file a `ModelFileError`.
            TypeError: for arrays that hold no real numbers.
        """
        from nn.transfer import load  # noqa: PLC0415 - for programs that move weights

        self.store  # noqa: B018 - raises before the variables exist
        return load(self.graph, type(self).__name__, source, names, partial, layout)

    def fit_history(self) -> History:
        """Return the rows of all epochs since the model was made or cleared."""
        return self._history

    def clear(self) -> None:
        """Go back to the untrained model: first weights drawn anew from the seed, no history, fresh rule state.

        The learning rate becomes the one given to `compile`, also where callbacks have set another since.
        """
        self.store.initialize(self.seed)
        if self.rule is not None:
            self.rule.load_state_dict({"step": 0})
            # The state has no rate, and callbacks may have set it.
            self.rule.learn_rate = self._first_rate
        # New objects: one that `fit` has returned keeps its rows.
        self._history, self.epochs_trained, self.callback_states = History(), 0, CallbackStates()
        self.keyless_calls = 0
