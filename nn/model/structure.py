"""Memory of the parts that a graph was built from: it tells when they no longer describe the computation of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nn.arguments import Configurable, short
from nn.layer.layer import Layer, parts_within


class Structure:
    """Arguments and parts of a model and of its layers as they were when the graph was built.

    A list that a layer or a model holds can be changed in place, which nothing refuses. The graph stays the same, while a
    file would describe the changed parts. So training and saving compare first.

    Args:
        owners: the model and its layers.
    """

    def __init__(self, owners: Iterable[Configurable]) -> None:
        self._known = [(owner, _config(owner), _parts(owner)) for owner in owners]

    def check(self, model: str) -> None:
        """Compare with the present arguments of the parts.

        Args:
            model: the class of the model, for messages.

        Raises:
            ValueError: naming the part and the argument that was changed.
        """
        for owner, config, parts in self._known:
            what = owner.describe() if isinstance(owner, Layer) else type(owner).__name__
            now = _config(owner)
            for name, value in (config or {}).items():
                if now is not None and now.get(name) != value:
                    raise ValueError(
                        f"{what} '{name}' was changed in place after setup(), from {short(value)} to {short(now.get(name))}: "
                        f"{_REMEDY.format(model=model)}"
                    )
            held = _parts(owner)
            for name, before in parts.items():
                after = held.get(name, ())
                if len(before) != len(after) or any(one is not other for one, other in zip(before, after, strict=True)):
                    raise ValueError(
                        f"{what} '{name}' held {len(before)} layers and variables at setup(), and now others, {len(after)}: "
                        f"{_REMEDY.format(model=model)}"
                    )


_REMEDY = "the graph is what it was; build another {model}, and move the weights by set_weights(get_weights())"


def _config(owner: Configurable) -> dict[str, Any] | None:
    """Return copies of the arguments that a file would hold; None where a user's class does not tell them."""
    try:
        # a name is fixed with the layer, but another model may number it anew
        return {name: _plain(value) for name, value in owner.get_config().items() if name != "name"}
    except (AttributeError, TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    """Return lists and parts within an argument as tuples, which later changes do not reach; of an odd object its class."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    # Layers are compared as objects: two equal ones are still others.
    if isinstance(value, Configurable) and not isinstance(value, Layer):
        return type(value).__name__, tuple((_config(value) or {}).items())
    return value if isinstance(value, Layer) else type(value).__name__


def _parts(owner: Configurable) -> Mapping[str, tuple[object, ...]]:
    """Return the layers and variables in the attributes of an object, by attribute."""
    found = {name: parts_within(value) for name, value in vars(owner).items() if name not in _OWN}
    return {name: parts for name, parts in found.items() if parts}


#: Attributes that the package keeps for itself.
_OWN = frozenset({"_used", "variables", "_graph", "_store", "_section", "_structure", "_runner", "_optimizer", "_marks"})
