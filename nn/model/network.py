"""The structure of a model: its graph, its variables and their weights."""

from __future__ import annotations

import os
import sys
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from nn import arguments, tensor_files
from nn.activation.activation import Linear
from nn.arguments import Configurable
from nn.arrays import BATCH, Array, DType, Shape, as_array, as_dtype, plain
from nn.extension import checked_call, is_ours, level_of_user, renamed, signature_of
from nn.layer.layer import Layer, Naming, name_layers, parts_within
from nn.model.history import show
from nn.model.objective import in_order
from nn.model.structure import Structure
from nn.value.graph import Graph, Placeholder
from nn.value.store import VariableStore, not_finite
from nn.value.value import Node, Owner, Value, Variable

if TYPE_CHECKING:
    from nn.model.diagram import Summary


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _abstract(method: _Method) -> _Method:
    """Return a method as an abstract one that type checkers take for another: they would refuse `Model(inputs, outputs)`."""
    return abstractmethod(method)


class Network(
    Configurable,
    free=("summary", "plot", "trainable", "get_layer", "output_of", "reset_states"),
    fixed=("input_shape", "seed", "dtype", "_graph", "_store", "_trainable", "_structure", "given_name"),
    internal=(
        "_outline_graph",
        "_restore_values",
        "get_weights",
        "set_weights",
        "_check_structure",
        "_mark_unfinished",
    ),
    passes={"_restore_values": (3,)},
    unlisted=("graph", "given_name"),
):
    """A function with variables, built once from layers and operators. `Model` adds training.

    `copy.deepcopy` and `pickle` give an independent copy, which goes on from where this one is.

    Args:
        input_shape: shape of the samples, -1 for the batch; None until it is known.
        seed: seed of first weights and masks, at least 0.
        dtype: type of variables and results, float32 or float64.
    """

    input_shape: Shape | None
    """The shape of the samples, -1 for the batch; None until it is known. May be set before `setup`."""

    seed: int
    """Seed of first weights and masks. May be set: `clear` draws anew by it."""

    dtype: np.dtype[Any]
    """The type of variables and results, float32 or float64. May be set before `setup`."""

    _graph: Graph | None
    _store: VariableStore | None
    _trainable: bool
    _structure: Structure | None
    _one_everywhere: ClassVar[bool] = True

    given_name: str = ""
    """The name by which a model stands in others, "" where it has none."""

    def __init__(self, input_shape: Sequence[int | None] | None = None, *, seed: int = 0, dtype: DType = "float32") -> None:
        self._graph = None
        self._store = None
        self._structure = None
        self._trainable = True
        self._moves = 0
        self._marks: dict[Variable, bool] = {}
        self.input_shape = None if input_shape is None else Placeholder(input_shape).shape
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.dtype = as_dtype(dtype)

    @overload
    def __call__(self, x: Value | Sequence[Value] | Mapping[str, Value], training: bool = False) -> Node | Any: ...

    @overload
    def __call__(self, x: Any, training: bool = False) -> Any: ...

    @checked_call
    def __call__(self, x: Any, training: bool = False) -> Any:
        """Return the outputs for values of a graph, as a layer does, or for arrays, as `predict` does.

        Called on values it is a part of the model that these belong to, with the same layers and variables.

        Args:
            x: a value or an array; for several inputs a list, or a dict by name.
            training: False; predictions never draw masks.

        Raises:
            ValueError: for values of other shapes, naming input, shape and what came.
        """
        arguments.flag(f"{type(self).__name__}()", "training", training)
        parts = list(x.values()) if isinstance(x, Mapping) else list(x) if isinstance(x, (list, tuple)) else [x]
        if not any(isinstance(each, Value) for each in parts):
            if training:
                raise ValueError(f"{type(self).__name__}() on arrays predicts, so 'training' must be False, got True")
            return self.predict(x)
        self._check_constructed()
        names = self._input_names
        values = in_order(f"{type(self).__name__} 'x'", x, names)
        shape = values[0].shape if self.input_shape is None else self.input_shape
        graph = self._graph = self._trace(shape)
        if not self._trainable:
            # Frozen before it had variables.
            self.trainable = False
        for name, value, entry in zip(names, values, graph.inputs, strict=True):
            if not isinstance(value, Value) or value.shape != entry.shape:
                found = value.shape if isinstance(value, Value) else type(value).__name__
                called = f"Model '{self.given_name}'" if self.given_name else type(self).__name__
                raise ValueError(
                    f"{called}: input{f' {name!r}' if name else ''} must be a value of shape {entry.shape}, got {found}"
                )
        made: Sequence[Value] = graph.applied(values)
        if any(value.mask is not None for value in values):
            from nn.model.calls import recalled  # noqa: PLC0415 - for models that are called on values with masks

            # The layers are called anew: the graph was made without masks.
            made = recalled(graph, values)
        own = len(graph.outputs) - graph.added
        for output in made[:own]:
            if isinstance(output, Node):
                # For the model around this one, which takes them over.
                output.added = tuple([value for value in made[own:] if isinstance(value, Node)])
        return self._shown(made[:own])

    @property
    def _output_names(self) -> Sequence[str]:
        """The names of the outputs; "output" where there is one without a name."""
        return ("output",)

    @property
    def _input_names(self) -> Sequence[str]:
        """The names of the inputs; "" where there is one without a name."""
        return ("",)

    def _shown(self, outputs: Sequence[Any]) -> Any:
        """Return outputs as programs get them: the only one, or a list."""
        return outputs[0] if len(outputs) == 1 else list(outputs)

    @abstractmethod
    def predict(self, x: Any, batch_size: int = 1024) -> Any:
        """Return the outputs for samples."""

    @checked_call
    def get_layer(self, name: str) -> Layer:
        """Return the layer of a name; raise ValueError, listing the names, where there is none."""
        layers = {layer.name: layer for layer in self.graph.layers if isinstance(layer, Layer)}
        # A model around this one renames a layer where another one within it bears its name.
        found = layers.get(name) or {layer._named_for: layer for layer in layers.values()}.get(name)
        if found is None:
            raise ValueError(
                f"get_layer() 'name' must be one of {', '.join(layers)}, got {name!r}{arguments.did_you_mean(name, layers)}"
            )
        return found

    @checked_call
    def output_of(self, name: str) -> Node:
        """Return the last result of a layer as a value, to build another model on: ``Model(model.input, value)``."""
        layer = self.get_layer(name)
        return next(node for node in reversed(self.graph.nodes) if layer in node.layers)

    @checked_call
    def reset_states(self) -> None:
        """Have layers with `stateful=True` begin the next batch with states of 0."""
        for carried in () if self._graph is None else self._graph.carried:
            carried.kept.rows = None

    @contextmanager
    def _mark_unfinished(self) -> Iterator[None]:
        """Let `call` set any attribute: it is the second half of the constructor."""
        # the metaclass has closed the object after `__init__`: attributes set by `call` would be refused
        made, self._made = self._made, False
        try:
            yield
        finally:
            self._made = made

    @_abstract
    def call(self, x: Value) -> Value:
        """Return the output for the input `x`. Called once, to build the graph."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments that shape the model."""
        return {name: value for name, value in super().get_config().items() if name not in ("input_shape", "seed", "dtype")}

    def _config_within(self) -> dict[str, Any]:
        takes = signature_of(type(self)).parameters
        config = {"input_shape": plain(self.input_shape)} if "input_shape" in takes and self.input_shape is not None else {}
        # The type of numbers of the whole model is not one of its parts, which may also be used alone.
        return config if "dtype" not in takes or self.dtype == np.float32 else {**config, "dtype": self.dtype.name}

    def trainable_variables(self) -> list[Variable]:
        """Return the trained variables in the order of their ids: layer by layer, as each layer made them."""
        if self._store is not None:
            return list(self.store.variables)
        if self._graph is not None:
            return [variable for variable in self._graph.variables if variable.trainable]
        raise ValueError(self._missing())

    @property
    def trainable(self) -> bool:
        """Whether training changes the variables of models that are set up with this one from now on, and of this one.

        It may be set at any time, and holds from the next `setup` or `compile` on, before which `fit` of a model that is set up
        refuses. `train_on_batch` and `compute_gradients` go on with the variables that `setup` found: so a discriminator that
        learns is frozen in the model that trains its generator. Set for a model, it is set for each of its layers; one that is
        thawed afterwards is trained. Frozen before it has variables, a model is frozen as a whole, whatever its layers say.
        """
        if self._graph is None:
            return self._trainable
        return any(variable.trainable for variable in _made_trainable(self._graph))

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        self._trainable = bool(arguments.instance(self, "trainable", trainable, bool))
        if self._graph is not None:
            for layer in self._graph.layers:
                if isinstance(layer, Layer):
                    layer.trainable = trainable
            for variable in _made_trainable(self._graph):
                variable.trainable = trainable
            # The marks are made: what is thawed from here on must not be frozen by the next `setup`.
            self._trainable = True

    def _marked_anew(self, graph: Graph | None) -> list[Variable]:
        """Return the variables that were frozen or thawed since `setup`."""
        return [each for each in _made_trainable(graph) if each.trainable != self._marks.get(each, each.trainable)]

    def _refuse_if_marked_anew(self, owner: str) -> None:
        """Raise ValueError where variables were frozen, or thawed, since `setup`; `owner` names the function for messages."""
        found = next(iter(self._marked_anew(self._graph)), None)
        if found is not None:
            was = "thawed" if found.trainable else "frozen"
            raise ValueError(
                f"{owner} of {type(self).__name__} needs another compile() or setup(): "
                f"'{found.name}' was {was} after the last one"
            )

    def _refuse_in_training(self, owner: str) -> None:
        """Raise ValueError where other variables would be trained from here on while a training runs."""

    @property
    def built(self) -> bool:
        """Whether the graph exists: from `setup` on, or from the first data if the model was given no input shape."""
        return self._store is not None

    @property
    def store(self) -> VariableStore:
        """The variables' memory; raise ValueError before they exist."""
        if self._store is None:
            raise ValueError(self._missing())
        if self._store.left:
            self._allocate(self.graph)
        return self._store

    @property
    def graph(self) -> Graph:
        """The graph; raise ValueError before it exists."""
        if self._graph is None:
            raise ValueError(self._missing())
        return self._graph

    def get_weights(self) -> list[Array]:
        """Return copies of all weights, trained and not, in Keras's order and shapes.

        First the model's own variables, then layer by layer in the order of their first use; of a layer those that are
        trained before its statistics: gamma, beta, moving mean and moving variance of a batch normalisation.
        """
        self.store  # noqa: B018 - raises before the variables exist
        return [variable.get_value() for variable in in_keras_order(self.graph)]

    @checked_call
    def set_weights(self, weights: Sequence[Array]) -> None:
        """Copy weights in the order of `get_weights`; raise ValueError, and change nothing, unless number and shapes fit.

        Weights that are not finite are taken with a warning, as those of a model file are.
        """
        self.store  # noqa: B018 - raises before the variables exist
        load_weights(self.graph, weights)
        if problem := not_finite((variable, variable.value) for variable in self.store.everything):
            warnings.warn(f"set_weights() got weights of which {problem}", RuntimeWarning, stacklevel=level_of_user())

    @checked_call
    def summary(self) -> Summary:
        """Print a table of layers, output shapes, numbers of parameters, sources of each layer, and memory; return its text."""
        from nn.model.diagram import Summary, summarize  # noqa: PLC0415 - for people who look: workers do not

        text = Summary(summarize(type(self).__name__, self.graph, self.store))
        sys.stdout.write(f"{text}\n")
        return text

    @checked_call
    def plot(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write a picture of the graph as SVG: a box for every use of a layer with the shape it gives, and arrows between.

        Without `path` it is shown below the cell of a notebook; ValueError where there is none.
        """
        from nn.model.diagram import Diagram  # noqa: PLC0415 - for people who look: workers do not
        from nn.model.picture import draw  # noqa: PLC0415

        if path is None:
            show("plot()", {"image/svg+xml": draw(type(self).__name__, Diagram(self.graph))}, "model.svg")
            return
        target = arguments.new_path("plot()", "path", path, "a file")
        if not target.lower().endswith(".svg"):
            raise ValueError(f"plot() 'path' must end in .svg, got {target!r}")
        tensor_files.write_file(target, draw(type(self).__name__, Diagram(self.graph)).encode())

    def _repr_html_(self) -> str | None:
        """Return the table of `summary` for a notebook, and the picture of `plot`; None, so `repr`, before it is built."""
        if not self.built:
            return None
        from html import escape  # noqa: PLC0415 - for people who look: workers do not

        from nn.model.diagram import Diagram, summarize  # noqa: PLC0415
        from nn.model.picture import draw  # noqa: PLC0415

        name = type(self).__name__
        text = f'<pre style="font-family:monospace">{escape(summarize(name, self.graph, self.store))}</pre>'
        return f"{text}<details><summary>picture</summary>{draw(name, Diagram(self.graph))}</details>"

    def _outline_graph(self, input_shape: Shape) -> Graph:
        """Build and return the graph for this input shape, without memory; a part of the model is cut from it."""
        self._graph = self._trace(input_shape)
        return self._graph

    def _trace(self, input_shape: Shape) -> Graph:
        """Return the graph for this input shape, without memory: that which is there, or a new one."""
        if self._graph is not None and self._graph.placeholder.shape == tuple(input_shape):
            return self._graph
        return trace(self, input_shape)

    def _build_if_known(self) -> None:
        """Make the variables where the shape of the input is known."""
        if self.input_shape is not None:
            self._allocate(self._trace(self.input_shape))

    def _restore_values(self, input_shape: Shape, values: Mapping[str, Array], frozen: Iterable[str] = ()) -> None:
        """Build a model that is set up for this input shape, with these values of its variables, by name, some of them frozen.

        Raises ValueError where the values do not fit the structure, before memory is allocated for it.
        """
        graph = self._trace(input_shape)
        freeze(graph, frozen)
        shapes = {variable.name: variable.shape for variable in graph.variables}
        if shapes.keys() != values.keys():
            odd = sorted(shapes.keys() ^ values.keys())[0]
            raise ValueError(f"variable '{odd}' is {'missing' if odd in shapes else 'not part of the model'}")
        # all of it before any memory is taken: the file may be a stranger's
        for name, shape in shapes.items():
            if values[name].shape != shape or values[name].dtype != self.dtype:
                raise ValueError(
                    f"variable '{name}' must be {self.dtype} of shape {shape}, "
                    f"got {values[name].dtype} of shape {values[name].shape}"
                )
        self._allocate(graph)
        for variable in self.store.everything:
            variable.set_value(values[variable.name])
        # A warning: what a run has left can be looked at, however it ended.
        if problem := not_finite((variable, variable.value) for variable in self.store.everything):
            warnings.warn(f"in the model file {problem}", RuntimeWarning, stacklevel=level_of_user())

    def _allocate(self, graph: Graph) -> None:
        """Take over a graph and give every variable its memory and its first value."""
        self._graph = graph
        if not self._trainable:
            # All that could be trained, also in layers that are not frozen themselves.
            freeze(graph, [variable.name for variable in _made_trainable(graph)])
            self._trainable = True
        try:
            if self._store is None:
                chosen = self.trainable_variables()
            else:  # frozen or thawed since
                changed = set(self._marked_anew(graph))
                kept = {each for each in self._store.variables if each not in changed}
                chosen = [each for each in graph.variables if each in kept or (each in changed and each.trainable)]
            trained, fixed = divide(self, graph, chosen)
            self._store = VariableStore(trained, fixed, self.dtype, self.seed, instead_of=self._store)
            self._moves = 0
            graph.trained = frozenset([*trained, *self._store.buffers])
            self._marks = {variable: variable.trainable for variable in graph.variables}
        finally:
            # Refused: the next call traces anew, perhaps with other layers.
            if self._store is None:
                self._graph = None
        self._keep(input_shape=graph.placeholder.shape)
        layers = [layer for layer in graph.layers if isinstance(layer, Layer)]
        for layer in layers:
            layer.fix()
        # From here on a change in place would have no effect, and is looked for.
        self._structure = Structure([self, *layers])

    def _settle_trained(self) -> None:
        """Train what is marked `trainable` now: the same graph and values, in vectors of these variables."""
        if self._graph is not None and self._marked_anew(self._graph):
            self._allocate(self._graph)

    def _check_structure(self) -> None:
        """Raise ValueError where a part of the model was changed in place since the graph was built from it."""
        if self._structure is not None:
            self._structure.check(type(self).__name__)

    def _take(self, name: str, value: Any) -> bool:
        if name == "seed":
            self._keep(seed=arguments.integer(self, "seed", value, minimum=0))
        elif name not in ("input_shape", "dtype"):
            return False
        elif self._store is not None:
            raise AttributeError(
                f"{type(self).__name__} '{name}' cannot be set after setup(), as the variables are made for it; build another "
                "model, and move the weights by set_weights(get_weights())"
            )
        elif name == "dtype":
            self._keep(dtype=as_dtype(value))
        else:
            self._keep(input_shape=None if value is None else Placeholder(value).shape)
        return True

    def _built_from(self, name: str) -> bool:
        return self.built and bool(parts_within(vars(self).get(name)))

    def _check_constructed(self) -> None:
        """Raise TypeError where a subclass forgot the constructor of this class."""
        if "_store" not in vars(self):
            raise TypeError(f"{type(self).__name__}.__init__() must call super().__init__()")

    if not TYPE_CHECKING:  # editors offer no former names
        outline = renamed("_outline_graph")
        restore = renamed("_restore_values")
        check_structure = renamed("_check_structure")
        unfinished = renamed("_mark_unfinished")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy, the nodes first, inputs before their users: or a deep graph would be deep recursion."""
        if self.built:
            self.store  # noqa: B018 - makes it anew where another model has left it without a part of its variables
        return {"nodes": [] if self._graph is None else self._graph.nodes, **vars(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update((name, value) for name, value in state.items() if name != "nodes")

    def _missing(self) -> str:
        # where a class is the user's own, its constructor has to hand the shape on
        how = "" if is_ours(type(self)) else "; super().__init__(input_shape=[-1, ..]) in its constructor gives it one"
        return f"{type(self).__name__} is not built yet; without an input_shape it is built from the first data{how}"


def _made_trainable(graph: Graph | None) -> list[Variable]:
    return [] if graph is None else [variable for variable in graph.variables if variable.made_trainable]


def losses_within(graph: Graph) -> list[Node]:
    """Return the values that models which were called in this graph add to its loss, each once."""
    found = dict.fromkeys(value for node in graph.nodes for value in node.added)
    # A value that is an output already gets a node of its own.
    return [value.apply(Linear()) if value in graph.outputs else value for value in found]


def trace(model: Network, input_shape: Shape) -> Graph:
    """Return the graph that a model's `call` builds, layers and variables named; no memory yet.

    Layers are named in the order of their first calls; a variable without a name takes that of the model's attribute, else a
    number. Raises ValueError where the output is not one per sample or where names are not unique.

    Args:
        model: the model.
        input_shape: shape of its input.
    """
    placeholder = Placeholder(input_shape)
    with Naming() as naming, model._mark_unfinished():
        output = model.call(placeholder)
    if not isinstance(output, Node) or not output.shape or output.shape[0] != BATCH:
        found = f"shape {output.shape}" if isinstance(output, Value) else type(output).__name__
        if output is None:
            found += "; is a 'return' missing?"
        raise ValueError(f"{type(model).__name__}.call() must return one output per sample, (-1, ...), got {found}")
    # Two graphs: the losses that nodes add are found in the first one, and are outputs of the second.
    losses = losses_within(Graph(placeholder, output))
    graph = Graph(placeholder, [output, *losses], len(losses))
    # by first call and not by their place in the graph, so that names do not depend on how branches are walked
    name_layers(sorted(graph.layers, key=naming.place), again=True)
    # After the layers, as a variable of a layer bears its name.
    for name, value in vars(model).items():
        if isinstance(value, Variable) and value.local_name is None:
            value.local_name = name
    check_names(graph)
    return graph


def check_names(graph: Graph) -> None:
    """Number the variables that have no name; raise ValueError where two bear the same."""
    unnamed = [variable for variable in graph.variables if variable.local_name is None]
    for number, variable in enumerate(unnamed, start=1):
        variable.local_name = f"variable_{number}"
    for name, count in Counter(variable.name for variable in graph.variables).items():
        if count > 1:
            raise ValueError(f"{count} variables are named '{name}'; names must differ within a model")


def freeze(graph: Graph, names: Iterable[str]) -> None:
    """Stop these variables from being trained; raise ValueError where the graph has no trainable one of a name."""
    found = {variable.name: variable for variable in graph.variables if variable.made_trainable}
    for name in names:
        if name not in found:
            raise ValueError(f"'{name[:80]}' cannot be frozen: the model has no trainable variable of this name")
        found[name].trainable = False


def divide(model: Network, graph: Graph, trained: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """Return the trained variables and the others; raise ValueError unless the trained ones can be trained, once each."""
    left = {variable for variable in graph.variables if variable.trainable}
    for variable in trained:
        if variable not in left:
            raise ValueError(
                f"{type(model).__name__}.trainable_variables() must return different trainable variables that call() "
                f"uses, got '{variable.name}'"
            )
        # taken out, so that a second mention is refused like a variable that is not there
        left.discard(variable)
    chosen = set(trained)
    return list(trained), [variable for variable in graph.variables if variable not in chosen]


def in_keras_order(graph: Graph) -> list[Variable]:
    """Return all variables: those of no layer first, then layer by layer, and of a layer the trainable ones first."""
    owners: dict[Owner | None, list[Variable]] = {None: []}
    for variable in graph.variables:
        owners.setdefault(variable.owner, []).append(variable)
    # By whether it was made to be trained, so that freezing does not change the order. The sort keeps it otherwise.
    return [variable for found in owners.values() for variable in sorted(found, key=lambda each: not each.made_trainable)]


def load_weights(graph: Graph, weights: Sequence[Any]) -> None:
    """Copy all values in that order, or none.

    Raises ValueError naming the first variable with another shape, TypeError for arrays that hold no real numbers.
    """
    variables = in_keras_order(graph)
    given = [] if isinstance(weights, np.ndarray) else arguments.sequence("set_weights()", "weights", weights, "arrays")
    if len(given) != len(variables) or isinstance(weights, np.ndarray):
        found = "one array" if isinstance(weights, np.ndarray) else f"{len(given)}"
        names = ", ".join(f"{variable.name} {variable.shape}" for variable in variables[:8])
        more = ", ..." if len(variables) > 8 else ""
        raise ValueError(f"set_weights() takes a list of {len(variables)} arrays ({names}{more}), got {found}")
    # All of them before the first is copied.
    arrays = [as_array(f"set_weights() array {place}", weight) for place, weight in enumerate(given)]
    for place, (variable, array) in enumerate(zip(variables, arrays, strict=True)):
        if array.dtype.kind not in "iufb":
            raise TypeError(f"set_weights() array {place}, '{variable.name}', must hold numbers, got {array.dtype}")
        if array.shape != variable.shape:
            raise ValueError(
                f"set_weights() array {place}, '{variable.name}', must have shape {variable.shape}, got {array.shape}"
            )
    for variable, array in zip(variables, arrays, strict=True):
        variable.set_value(array)
