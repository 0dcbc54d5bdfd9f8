"""A part of a model, for model-parallel and split learning."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from nn import arguments, registry
from nn.arrays import Array, Shape, as_array
from nn.gradient_descent import IGradientDescent
from nn.model.batches import as_type
from nn.model.cut import Section
from nn.model.fragment_runner import FragmentRunner
from nn.model.model import Model
from nn.model.structure import freeze, trace
from nn.plan import OnGradient
from nn.value import Value, Variable, VariableStore


class Fragment(Model):
    """What lies between two cuts through a model, made by `Model.split`: itself a model, with weights and a rule of its own.

    One step of training sends activations one way and their gradient back; both are valid until the next run.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(8), nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> front, back = model.split("dense_1")
    >>> activations = front.forward(np.eye(4))
    >>> loss, prediction = back.compute_gradients(activations, [0, 1, 2, 0])
    >>> gradient = front.backward(back.input_gradient)
    >>> front.apply_gradients(); back.apply_gradients()

    With equal keys (seed, epoch, batch, block) both halves draw what the whole draws, for dropout. A fragment can be split
    again; one in the middle passes `forward` on and `backward` back. `whole` is the structure it was cut from,
    `begin` and `end` the layers whose results go in and come out, None for the input and the output of the whole.
    """

    def __init__(
        self, whole: Model, whole_shape: Sequence[int | None], begin: str | None = None, end: str | None = None
    ) -> None:
        self.whole: Model = arguments.instance(self, "whole", whole, Model)
        self.begin, self.end = begin, end
        outline = whole.outline(arguments.shape(self, "whole_shape", whole_shape, unknown=1))
        self.whole_shape: Shape = outline.placeholder.shape
        self._section = Section(outline, begin, end)
        super().__init__(self._section.entry.shape, seed=whole.seed, dtype=whole.dtype.name)

    def call(self, x: Value) -> Value:
        """Return what the whole computes between the cuts."""
        return self._section.copy(x)

    def trainable_variables(self) -> list[Variable]:
        """Return those of the whole's trained variables that are used here, in its order."""
        if self.built:
            return super().trainable_variables()
        return [variable for variable in self.whole.trainable_variables() if variable in self.graph.variables]

    @property
    def runner(self) -> FragmentRunner:
        """What computes this part; it needs no loss."""
        if not isinstance(self._runner, FragmentRunner):
            self._runner = FragmentRunner(self.graph, self._loss, self.store.dtype, self._section.whole())
        return self._runner

    @property
    def input_gradient(self) -> Array:
        """The gradient of the input, to be sent back after `compute_gradients` or `backward`; valid until the next run."""
        return self.runner.input_gradient()

    def forward(self, x: Array, key: tuple[int, ...] | None = None) -> Array:
        """Return the output in training, to be sent on; `backward` follows. `key` as in `compute_gradients`."""
        return self.runner.forward(as_type(self.check(x), self.dtype), self.key_or_next(key))

    def backward(self, gradient: Array, on_gradient: OnGradient | None = None) -> Array:
        """Write all gradients into the store, given that of the output; return that of the input, to be sent back.

        Raises ValueError without a `forward` just before, and for a gradient of another shape.
        """
        self.runner.backward(as_array("backward() 'gradient'", gradient), on_gradient)
        return self.input_gradient

    def origin(self) -> tuple[Model, dict[str, Any] | None]:
        """Return the whole, and which part of it this is."""
        return self.whole, {"whole_shape": list(self.whole_shape), "begin": self.begin, "end": self.end}

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"whole": self.whole, "whole_shape": list(self.whole_shape), "begin": self.begin, "end": self.end}

    def take_over(self, model: Model) -> None:
        """Become the trained part of `model`: copies of its weights, rule and state, and its count of epochs."""
        values = {variable.name: variable for variable in model.store.everything}
        graph = trace(self, self._section.entry.shape)
        freeze(graph, [variable.name for variable in graph.variables if values[variable.name].frozen])
        self._allocate(graph)
        for variable in self.store.everything:
            variable.set_value(values[variable.name].value)
        self.epochs_trained, self.fit_history().seed = model.epochs_trained, model.fit_history().seed
        if model.rule is not None:
            sources = [values[variable.name] for variable in self.store.variables]
            self.adopt(model.op_type, _part_of_rule(model.rule, model.store, sources))


def split(model: Model, at: str | int) -> tuple[Fragment, Fragment]:
    """Return both halves of a model that is built; see `Model.split`."""
    graph = model.graph
    if isinstance(at, str):
        name = at
    else:
        number = arguments.integer("split()", "at", at, minimum=1)
        if number > len(graph.layers):
            raise ValueError(f"split() 'at' must be at most {len(graph.layers)}, the number of layers, got {number}")
        name = graph.layers[number - 1].name
    if model.rule is not None and model.rule.clip_norm is not None:
        raise ValueError(f"split() needs a rule that the halves can apply apart; 'clip_norm' looks at both, got {model.rule}")
    Section(graph, None, name)  # before anything is built: says what is wrong with the cut
    whole, place = model.origin()
    whole_shape, begin, end = (graph.placeholder.shape, None, None) if place is None else place.values()
    front = Fragment(_untrained(whole), whole_shape, begin, name)
    back = Fragment(_untrained(whole), whole_shape, name, end)
    for half in (front, back):
        half.take_over(model)
    if model.has_loss:
        back.setup(deepcopy(model.loss), *deepcopy(model.metrics))
    return front, back


def _untrained(whole: Model) -> Model:
    """Return a model of the same structure that is not built."""
    made: Model = registry.construct(type(whole), registry.describe_arguments(whole), registry.custom_classes(whole))
    made.seed, made.dtype = whole.seed, whole.dtype
    return made


def _part_of_rule(rule: IGradientDescent, store: VariableStore, variables: Sequence[Variable]) -> IGradientDescent:
    """Return a copy of a rule with the parts of its state that belong to some of the variables, in their order."""
    ends = np.cumsum([variable.value.size for variable in store.variables])
    rows = [np.arange(end - variable.value.size, end) for variable, end in zip(store.variables, ends, strict=True)]
    chosen = np.concatenate([np.empty(0, np.intp), *(rows[variable.id] for variable in variables)])
    state = {name: value[chosen] if isinstance(value, np.ndarray) else value for name, value in rule.state_dict().items()}
    part = deepcopy(rule)
    part.load_state_dict(state)
    return part
