"""Arguments of layers that have a default of their own."""

from typing import Any, TypeVar

from nn import arguments
from nn.activation import Activation
from nn.initializer import Initializer

_Part = TypeVar("_Part", Activation, Initializer)


def chosen(owner: object, name: str, given: Any, default: _Part) -> _Part:
    """Return the activation or initialiser that was given, or the default for None.

    Raises TypeError naming owner and argument for anything that is no `Activation`, or no `Initializer`, like the default.
    """
    kind = Activation if isinstance(default, Activation) else Initializer
    found: _Part = arguments.instance(owner, name, default if given is None else given, kind)
    return found
