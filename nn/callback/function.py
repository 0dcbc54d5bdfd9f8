"""Callback of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nn.callback.callback import Callback


class LambdaCallback(Callback):
    """Functions that are called as training goes on, for a callback of one line; see `Callback` for what each one is given.

    Args:
        on_epoch_begin: called with the number of the epoch, from 0.
        on_epoch_end: called with the number of the epoch and its results by name.
        on_train_begin: called without arguments.
        on_train_end: called with the results of the last epoch.

    Raises TypeError for what cannot be called. For batches derive a class from `Callback`, which a job refuses.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.compile("sgd", "crossentropy_with_softmax")
    >>> told = []
    >>> note = nn.callback.LambdaCallback(on_epoch_end=lambda epoch, logs: told.append(epoch))
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epochs=2, callbacks=[note], verbose=0)
    >>> told
    [0, 1]
    """

    def __init__(
        self,
        on_epoch_begin: Callable[[int], object] | None = None,
        on_epoch_end: Callable[[int, Mapping[str, float]], object] | None = None,
        on_train_begin: Callable[[], object] | None = None,
        on_train_end: Callable[[Mapping[str, float]], object] | None = None,
    ) -> None:
        given = {
            "on_epoch_begin": on_epoch_begin,
            "on_epoch_end": on_epoch_end,
            "on_train_begin": on_train_begin,
            "on_train_end": on_train_end,
        }
        for name, function in given.items():
            if function is not None and not callable(function):
                raise TypeError(f"LambdaCallback '{name}' must be a function, got {function!r}")
        self._on_epoch_begin, self._on_epoch_end = on_epoch_begin, on_epoch_end
        self._on_train_begin, self._on_train_end = on_train_begin, on_train_end

    def on_train_begin(self) -> None:
        if self._on_train_begin is not None:
            self._on_train_begin()

    def on_epoch_begin(self, epoch: int) -> None:
        if self._on_epoch_begin is not None:
            self._on_epoch_begin(epoch)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        if self._on_epoch_end is not None:
            self._on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        if self._on_train_end is not None:
            self._on_train_end(logs)
