"""What training changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nn import arguments
from nn.arrays import Array, as_array
from nn.initializer import GlorotUniform, Initializer
from nn.value.value import Value

if TYPE_CHECKING:
    from nn.layer.layer import Layer


class Variable(Value):
    """An array with a gradient, held by a model's `VariableStore` from `setup` on.

    `id` is the position in the model's `trainable_variables()`, -1 before that and for what is not trained.
    `name` is `<layer>/<name>` for a layer's variable, for example `dense_1/kernel`. A variable that is copied or pickled apart
    from its model has no memory.
    """

    # of the class, so that a copy without memory finds them
    _value: Array | None = None
    _gradient: Array | None = None

    def __init__(
        self,
        shape: Sequence[int],
        initializer: Initializer | None = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(arguments.shape("Variable", "shape", shape))
        initializer = GlorotUniform() if initializer is None else initializer
        self.initializer: Initializer = arguments.instance("Variable", "initializer", initializer, Initializer)
        self.local_name = name
        self.made_trainable = bool(arguments.instance("Variable", "trainable", trainable, bool))
        """Whether it is there to be trained, frozen or not."""
        self._trainable = self.made_trainable
        self.owner: Layer | None = None
        self.id = -1

    @property
    def name(self) -> str:
        """The name, unique in its model."""
        own = self.local_name or "variable"
        return f"{self.owner.name}/{own}" if self.owner is not None else own

    @property
    def trainable(self) -> bool:
        """Whether training changes it. May be set before `setup`; raises ValueError afterwards."""
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        self.refuse_if_bound(f"Variable '{self.name}'")
        self._trainable = bool(arguments.instance("Variable", "trainable", trainable, bool))

    @property
    def frozen(self) -> bool:
        """Whether it is not trained although it was made for that."""
        return self.made_trainable and not self._trainable

    def refuse_if_bound(self, who: str) -> None:
        """Raise ValueError if a store holds this variable: it is too late to say what is trained."""
        if self.bound:
            raise ValueError(
                f"{who} belongs to a model that is set up, so its 'trainable' cannot change: build another model, set "
                f"'trainable' there before setup(), and give it the weights, set_weights(model.get_weights())"
            )

    @property
    def bound(self) -> bool:
        """Whether a model's store holds this variable."""
        return self._value is not None

    @property
    def has_gradient(self) -> bool:
        """Whether a plan computes a gradient for it, or for a buffer its change."""
        return self._gradient is not None

    def bind(self, identity: int, value: Array, gradient: Array | None) -> None:
        """Take memory from a store. A variable belongs to one model."""
        if self.bound:
            raise ValueError(f"Variable '{self.name}' already belongs to another model; build a new one for this model")
        self.id, self._value, self._gradient = identity, value, gradient

    @property
    def value(self) -> Array:
        """The live value, a view into the store's vector."""
        if self._value is None:
            raise ValueError(f"Variable '{self.name}' has no value yet; call the model's setup() first")
        return self._value

    @property
    def gradient(self) -> Array:
        """The live gradient, a view into the store's vector."""
        if self._gradient is None:
            state = "is not trained" if self.bound else "has no gradient yet; call the model's setup() first"
            raise ValueError(f"Variable '{self.name}' {state}")
        return self._gradient

    def get_value(self) -> Array:
        """Return a copy of the value."""
        return self.value.copy()

    def set_value(self, array: Array) -> None:
        """Copy `array` into the value; raise ValueError unless its shape is the variable's, or where it masks."""
        given = as_array(f"Variable '{self.name}'", array)
        if given.shape != self.shape:
            raise ValueError(f"Variable '{self.name}' has shape {self.shape}, got an array of shape {given.shape}")
        np.copyto(self.value, given, casting="same_kind" if given.dtype.kind == "f" else "unsafe")

    def get_gradient(self) -> Array:
        """Return a copy of the gradient."""
        return self.gradient.copy()

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied: not the memory, which is the store's."""
        return {name: value for name, value in vars(self).items() if name not in ("_value", "_gradient")}

    def __repr__(self) -> str:
        return f"Variable(name={self.name!r}, shape={self.shape}, id={self.id})"
