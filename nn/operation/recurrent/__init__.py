"""Operations that walk along time: the work of the recurrent layers."""

from nn.operation.recurrent.gated import GRUOperation, LSTMOperation
from nn.operation.recurrent.recurrence import Recurrence
from nn.operation.recurrent.simple_rnn import SimpleRNNOperation

__all__ = ["GRUOperation", "LSTMOperation", "Recurrence", "SimpleRNNOperation"]
