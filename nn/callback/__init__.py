"""Callbacks: objects that `Model.fit` tells how training goes on."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.callback.callback import Callback
    from nn.callback.csv_logger import CSVLogger
    from nn.callback.learning_rate import LearningRateScheduler, ReduceOnPlateau
    from nn.callback.monitor import EarlyStopping, ModelCheckpoint

__all__ = ["CSVLogger", "Callback", "EarlyStopping", "LearningRateScheduler", "ModelCheckpoint", "ReduceOnPlateau"]
__getattr__, __dir__ = lazily(__name__, {
    "callback": "Callback", "csv_logger": "CSVLogger", "learning_rate": "LearningRateScheduler ReduceOnPlateau",
    "monitor": "EarlyStopping ModelCheckpoint",
})  # fmt: skip
