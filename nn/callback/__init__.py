"""Callbacks: objects that `Model.fit` tells how training goes on."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.callback.averaging import SwapEMA
    from nn.callback.callback import Callback
    from nn.callback.csv_logger import CSVLogger
    from nn.callback.function import LambdaCallback
    from nn.callback.learning_rate import LearningRateScheduler, ReduceOnPlateau
    from nn.callback.monitor import EarlyStopping, ModelCheckpoint
    from nn.callback.tensorboard import TensorBoard

__all__ = [
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ReduceOnPlateau",
    "SwapEMA",
    "TensorBoard",
]
lazily(
    __name__,
    {
        "averaging": "SwapEMA",
        "callback": "Callback",
        "csv_logger": "CSVLogger",
        "function": "LambdaCallback",
        "learning_rate": "LearningRateScheduler ReduceOnPlateau",
        "monitor": "EarlyStopping ModelCheckpoint",
        "tensorboard": "TensorBoard",
    },
)
