"""Layers: pieces of a model with variables of their own."""

from nn.layer.add import Add
from nn.layer.average_pool import AveragePool
from nn.layer.batch_norm import BatchNorm
from nn.layer.concatenate import Concatenate
from nn.layer.conv1d import Conv1D
from nn.layer.conv2d import Conv2D
from nn.layer.dense import Dense
from nn.layer.dropout import Dropout
from nn.layer.embedding import Embedding
from nn.layer.flatten import Flatten
from nn.layer.global_average_pool import GlobalAveragePool
from nn.layer.gru import GRU
from nn.layer.layer import Layer
from nn.layer.layer_norm import LayerNorm
from nn.layer.lstm import LSTM
from nn.layer.max_pool import MaxPool
from nn.layer.multi_head_attention import MultiHeadAttention
from nn.layer.recurrent import Recurrent
from nn.layer.reshape import Reshape
from nn.layer.simple_rnn import SimpleRNN

__all__ = [
    "GRU", "LSTM", "Add", "AveragePool", "BatchNorm", "Concatenate", "Conv1D", "Conv2D", "Dense", "Dropout", "Embedding",
    "Flatten", "GlobalAveragePool", "Layer", "LayerNorm", "MaxPool", "MultiHeadAttention", "Recurrent", "Reshape", "SimpleRNN",
]  # fmt: skip
