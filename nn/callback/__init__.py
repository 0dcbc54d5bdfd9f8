"""Callbacks: what `Model.fit` tells while it trains."""

from nn.callback.callback import Callback
from nn.callback.csv_logger import CSVLogger
from nn.callback.early_stopping import EarlyStopping
from nn.callback.learning_rate_scheduler import LearningRateScheduler
from nn.callback.model_checkpoint import ModelCheckpoint
from nn.callback.reduce_on_plateau import ReduceOnPlateau

__all__ = ["CSVLogger", "Callback", "EarlyStopping", "LearningRateScheduler", "ModelCheckpoint", "ReduceOnPlateau"]
