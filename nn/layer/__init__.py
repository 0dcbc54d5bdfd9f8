"""Layers: pieces of a model with variables of their own."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.layer.attention import MultiHeadAttention
    from nn.layer.convolution import AveragePool, Conv1D, Conv2D, GlobalAveragePool, MaxPool
    from nn.layer.core import Dense, Embedding, Flatten, Reshape
    from nn.layer.layer import Layer
    from nn.layer.merging import Add, Concatenate
    from nn.layer.normalization import BatchNorm, LayerNorm
    from nn.layer.recurrent import GRU, LSTM, Recurrent, SimpleRNN
    from nn.layer.regularization import Dropout

__all__ = [
    "GRU",
    "LSTM",
    "Add",
    "AveragePool",
    "BatchNorm",
    "Concatenate",
    "Conv1D",
    "Conv2D",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePool",
    "Layer",
    "LayerNorm",
    "MaxPool",
    "MultiHeadAttention",
    "Recurrent",
    "Reshape",
    "SimpleRNN",
]
__getattr__, __dir__ = lazily(
    __name__,
    {
        "attention": "MultiHeadAttention",
        "convolution": "AveragePool Conv1D Conv2D GlobalAveragePool MaxPool",
        "core": "Dense Embedding Flatten Reshape",
        "layer": "Layer",
        "merging": "Add Concatenate",
        "normalization": "BatchNorm LayerNorm",
        "recurrent": "GRU LSTM Recurrent SimpleRNN",
        "regularization": "Dropout",
    },
)
