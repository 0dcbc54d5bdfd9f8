"""What callbacks remember, so that a run which is continued from a model file decides as if it never stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from nn.arrays import Array
from nn.callback.callback import Callback

State: TypeAlias = Mapping[str, Array | int | float]


class CallbackStates:
    """The states of the callbacks of the running `fit`; before one runs, those of the file that the model came from.

    A callback is known by its class and, where there are several of a class, its number among them.
    """

    def __init__(self, loaded: Mapping[str, State] | None = None) -> None:
        self._loaded = dict(loaded or {})
        self._live: dict[str, Callback] = {}

    @contextmanager
    def attached(self, callbacks: Sequence[Callback]) -> Iterator[None]:
        """Give the callbacks their states, and follow them as long as the context lasts."""
        numbers: Counter[str] = Counter()
        for callback in callbacks:
            name = type(callback).__name__
            numbers[name] += 1
            self._live[name if numbers[name] == 1 else f"{name}_{numbers[name]}"] = callback
        try:
            for name, callback in self._live.items():
                callback.load_state_dict(self._loaded.get(name, {}))
            self._loaded = {}
            yield
        finally:
            self._live = {}

    def __getstate__(self) -> dict[str, object]:
        """Return the states as a file holds them: callbacks follow one model, not its copies."""
        return {"_loaded": self.current(), "_live": {}}

    def current(self) -> dict[str, State]:
        """Return the states as they are now, callbacks without any left out."""
        if not self._live:
            return dict(self._loaded)
        states = {name: callback.state_dict() for name, callback in self._live.items()}
        return {name: state for name, state in states.items() if state}
