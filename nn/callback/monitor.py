"""Which result of an epoch a callback watches, and which of two values is the better one."""

from __future__ import annotations

import math
from collections.abc import Mapping

from nn import arguments

_SMALL = ("loss", "error", "mse", "eer", "false")
_LARGE = ("accuracy", "auc", "precision", "recall", "f1", "true")


class Monitor:
    """The result `name` of an epoch, for example `val_Loss`; `owner` stands in messages.

    `mode` is 'min' where small values are good, 'max' where large ones are. 'auto' knows it for `Loss` and the metrics of
    `nn.metric` by the words in their names. A value is better if it beats the other by more than `min_delta`; NaN never does.
    """

    def __init__(self, owner: object, name: str, mode: str = "auto", min_delta: float = 0.0) -> None:
        self._owner = type(owner).__name__
        if not isinstance(name, str) or not name:
            raise TypeError(f"{self._owner} 'monitor' must be the name of a result, such as 'val_Loss', got {name!r}")
        arguments.one_of(owner, "mode", mode, ("auto", "min", "max"))
        self.name, self.mode = name, _mode(self._owner, name) if mode == "auto" else mode
        self.min_delta = arguments.number(owner, "min_delta", min_delta, 0)

    def value(self, logs: Mapping[str, float]) -> float:
        """Return the result; raise ValueError listing what there is where it is not among them."""
        if self.name not in logs:
            hint = "" if any(name.startswith("val_") for name in logs) else "; with validation data there are val_... too"
            near = "" if hint and self.name.startswith("val_") else arguments.did_you_mean(self.name, logs)
            raise ValueError(f"{self._owner} 'monitor' is {self.name!r}, but the results are {', '.join(logs)}{near or hint}")
        return logs[self.name]

    def better(self, value: float, than: float | None) -> bool:
        """Whether `value` is better than the other; any finite one is better than None."""
        if than is None:
            return math.isfinite(value)
        return than - value > self.min_delta if self.mode == "min" else value - than > self.min_delta


def _mode(owner: str, name: str) -> str:
    lower = name.lower()
    small, large = (any(word in lower for word in words) for words in (_SMALL, _LARGE))
    if small == large:
        raise ValueError(f"{owner} cannot tell whether {name!r} should be small or large: give mode='min' or 'max'")
    return "min" if small else "max"
