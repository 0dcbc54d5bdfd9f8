"""Operations that walk along time: the work of the recurrent layers."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.operation.recurrent.cells import GRUOperation, LSTMOperation, SimpleRNNOperation
    from nn.operation.recurrent.recurrence import Recurrence

__all__ = ["GRUOperation", "LSTMOperation", "Recurrence", "SimpleRNNOperation"]
lazily(__name__, {
    "cells": "GRUOperation LSTMOperation SimpleRNNOperation", "recurrence": "Recurrence",
})  # fmt: skip
