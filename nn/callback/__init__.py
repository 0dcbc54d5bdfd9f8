"""Callbacks: what `Model.fit` tells while it trains."""

from nn.callback.callback import Callback
from nn.callback.csv_logger import CSVLogger
from nn.callback.learning_rate import LearningRateScheduler, ReduceOnPlateau
from nn.callback.monitor import EarlyStopping, ModelCheckpoint

__all__ = ["CSVLogger", "Callback", "EarlyStopping", "LearningRateScheduler", "ModelCheckpoint", "ReduceOnPlateau"]
