"""What can be written to a model file and built again from it."""

from typing import Any


class Configurable:
    """A part of a model that a file names by its class and the arguments of its constructor."""

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keyword arguments that build an equal object.

        Values are None, bool, int, float, str, lists of them, or other configurable objects. The default suits classes
        whose constructor takes no arguments.
        """
        return {}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"
