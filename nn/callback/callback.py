"""Base class of callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from nn.arguments import Configurable
from nn.arrays import Array
from nn.extension import is_ours, shown

if TYPE_CHECKING:
    from nn.model.trained_network import TrainedNetwork


#: Hooks of Keras's callbacks that have another name, or none, here.
_UNCALLED: Final = {
    **{f"on_train_batch_{end}": f"its name is on_batch_{end}(batch{logs})" for end, logs in (("begin", ""), ("end", ", logs"))},
    **{
        f"on_{call}_{part}{end}": f"{method}() tells no callback"
        for call, method in (("test", "evaluate"), ("predict", "predict"))
        for part in ("", "batch_")
        for end in ("begin", "end")
    },
}


class Callback(
    Configurable, given=("model", "_fit_params", "_job_folder"), settable=("model",), uncalled=MappingProxyType(_UNCALLED)
):
    """Listener that `Model.fit` calls as training goes on. A subclass overrides the methods that it needs.

    `model` is the model in training, `params` tells `epoch`, `batch_size`, `steps` (batches per epoch, None where that is not
    known) and `seed`. Epochs and batches count from 0, as in Keras; `model.epochs_trained` counts over the whole life of the
    model. `logs` holds `Loss` (also read as `loss`) and the metrics so far in this epoch; at the end of an epoch also the
    `val_...` results. A callback ends training after the current epoch by `self.model.stop_training = True`.

    To add one: a class in a file of this package, its name in `nn/callback/__init__.py` and the table of nn/README.md, which a
    test demands. A job refuses hooks of batches. A restart and a resumed `fit` give back the state that `state_dict` returned.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> class Count(nn.callback.Callback):
    ...     batches = 0
    ...     def on_batch_end(self, batch, logs):
    ...         self.batches += 1
    >>> count = Count()
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epoch=3, batch_size=2, callbacks=[count], verbose=0)
    >>> count.batches
    6
    """

    model: TrainedNetwork
    params: Mapping[str, Any] = shown("_fit_params")
    folder: Path = shown("_job_folder")
    """Where a relative path of a file begins: the current directory, in a job the folder of the node."""

    _fit_params: Mapping[str, Any]
    _job_folder: Path = Path()

    def _take(self, name: str, value: Any) -> bool:
        kept = {"params": "_fit_params", "folder": "_job_folder"}.get(name)
        if kept is None or not is_ours(type(self)):  # of a user's class it is the author's own
            return False
        self._keep(**{kept: value})
        return True

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the state that a model file saved during `fit` holds, so that a continued run decides as one never stopped."""
        return {}

    def load_state_dict(self, state: Mapping[str, Array | int | float]) -> None:
        """Start with a state that `state_dict` returned, afresh with an empty one. `fit` calls this before training begins."""

    def on_train_begin(self) -> None:
        """Training begins."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Act before the first batch of an epoch.

        Args:
            epoch: its number in this `fit`, from 0.
        """

    def on_batch_begin(self, batch: int) -> None:
        """Act before a batch.

        Args:
            batch: its number in the epoch, from 0.
        """

    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        """Act after a batch, when the parameters are updated.

        Args:
            batch: its number in the epoch, from 0.
            logs: `Loss` and metrics so far in this epoch, by name.
        """

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Act at the end of an epoch.

        Args:
            epoch: its number in this `fit`, from 0.
            logs: `Loss`, metrics and `val_...` results of the epoch, by name.
        """

    def on_epoch_settled(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Act when all callbacks have heard of the end of the epoch: the time to save.

        Args:
            epoch: its number in this `fit`, from 0.
            logs: the results that `on_epoch_end` got.
        """

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        """Training ended; `logs` are those of the last epoch."""
