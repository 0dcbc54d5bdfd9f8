"""Models: `SequentialModel`, a list of layers, and `Model`, to subclass."""

from nn.model.history import History
from nn.model.model import Model
from nn.model.sequential import SequentialModel
from nn.model.tensors import ModelFileError

__all__ = ["History", "Model", "ModelFileError", "SequentialModel"]
