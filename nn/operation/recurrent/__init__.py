"""Operations that walk along time: the work of the recurrent layers."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.operation.recurrent.gated import GRUOperation, LSTMOperation
    from nn.operation.recurrent.recurrence import Recurrence
    from nn.operation.recurrent.simple_rnn import SimpleRNNOperation

__all__ = ["GRUOperation", "LSTMOperation", "Recurrence", "SimpleRNNOperation"]
__getattr__, __dir__ = lazily(__name__, {
    "gated": "GRUOperation LSTMOperation", "recurrence": "Recurrence", "simple_rnn": "SimpleRNNOperation",
})  # fmt: skip
