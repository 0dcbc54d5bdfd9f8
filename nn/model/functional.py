"""Functional model: the graph between inputs and outputs that layers, called on values, have made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from nn import arguments
from nn.activation.activation import Linear
from nn.arrays import BATCH, Array, DType, Shape
from nn.layer.layer import Layer, name_layers
from nn.model import calls as wiring
from nn.model.model import Model
from nn.model.network import check_names, losses_within
from nn.value.graph import Graph, Placeholder
from nn.value.value import Node, Value

if TYPE_CHECKING:
    from nn.dataset.plan.kinds import Unknown


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

    _of_files: ClassVar[tuple[str, ...]] = ("calls", "added", "by_name")
    """Arguments that a model file gives."""

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
        losses: list[Node] = []
        if calls is not None:
            inputs, outputs, losses = wiring.rebuilt(inputs, outputs, calls, added)
        entries, names = _entries(inputs)
        ends, self._ends = _ends(outputs, entries)
        if name is not None and (not isinstance(name, str) or not name or "/" in name):
            raise ValueError(f"Model 'name' must be a non-empty text without '/', got {name!r}")
        super().__init__(entries[0].shape, seed=seed, dtype=dtype)
        self.given_name = name or ""
        self._names = names
        if calls is None:
            losses = losses_within(Graph(entries, ends))
        self._take_graph(Graph(entries, [*ends, *losses], len(losses)))

    @property
    def name(self) -> str:
        """The name by which it stands in other models."""
        return self.given_name or type(self).__name__.lower()

    @property
    def input(self) -> Any:
        """The input, a value; of several a list."""
        entries = self.graph.inputs
        return entries[0] if len(entries) == 1 else list(entries)

    @property
    def output(self) -> Any:
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
        node = value if isinstance(value, Node) and value not in self.graph.outputs else value.apply(Linear())
        self._take_graph(Graph(self.graph.inputs, [*self.graph.outputs, node], self.graph.added + 1))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments in the form of a file: the calls of layers."""
        return {
            "name": self.given_name or None,
            "by_name": self._by_name,
            **wiring.described(self.graph, self._names, self._ends),
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

    def _rows_as_samples(self, owner: str, x: Any, unknown: Unknown | None = None) -> Any:
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


def _entries(inputs: Any) -> tuple[list[Placeholder], tuple[str, ...]]:
    """Return the inputs and their names."""
    if isinstance(inputs, Mapping):
        names, entries = [str(name) for name in inputs], list(inputs.values())
    else:
        entries = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        names = [entry.name if isinstance(entry, Placeholder) else "" for entry in entries]
    if not entries:
        raise ValueError("Model 'inputs' must hold at least one nn.Input, got none")
    for name, entry in zip(names, entries, strict=True):
        if not isinstance(entry, Placeholder):
            where = f" for '{name}'" if name else ""
            hint = "; a value that a layer has given can be an output only" if isinstance(entry, Value) else ""
            raise TypeError(f"Model 'inputs' must be values of nn.Input, got {arguments.short(entry)}{where}{hint}")
    if len(set(map(id, entries))) < len(entries):
        raise ValueError("Model 'inputs' must be different values, got one twice")
    if len(entries) > 1:
        names = [name or f"input_{number}" for number, name in enumerate(names, start=1)]
    _refuse_equal("inputs", names)
    return entries, tuple(names)


def _ends(outputs: Any, entries: Sequence[Placeholder]) -> tuple[list[Node], tuple[str, ...]]:
    """Return the outputs, each a node of its own, and their names."""
    given = isinstance(outputs, Mapping)
    found = list(outputs.values()) if given else list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    if not found:
        raise ValueError("Model 'outputs' must hold at least one value, got none")
    ends: list[Node] = []
    names: list[str] = []
    for number, value in enumerate(found, start=1):
        if not isinstance(value, Value):
            raise TypeError(f"Model 'outputs' must be values that layers have given, got {arguments.short(value)}")
        if not value.shape or value.shape[0] != BATCH:
            raise ValueError(f"Model 'outputs' must be one per sample, (-1, ...), got shape {value.shape}")
        # an output has a place of its own, where the caller finds it
        node = value if isinstance(value, Node) and value not in ends else value.apply(Linear())
        ends.append(node)
        own = value.layers[-1].given_name if isinstance(value, Node) and value.layers else ""
        names.append(own or ("output" if len(found) == 1 else f"output_{number}"))
    if given:
        names = [str(name) for name in outputs]
    elif len(set(names)) < len(names):  # one layer gives several of them
        names = [name if names.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(names, start=1)]
    _refuse_equal("outputs", names)
    return ends, tuple(names)


def _refuse_equal(what: str, names: Iterable[str]) -> None:
    names = list(names)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Model '{what}' must have different names, got '{name}' twice")
