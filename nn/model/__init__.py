"""Models: `SequentialModel`, a list of layers; `Model`, to subclass; and networks that everybody knows, ready made."""

# a fragment is a model and a model gives fragments: the module of fragments begins, and brings that of models along
from nn.model.fragment import Fragment

# isort: split
from nn.model.alexnet import AlexNet
from nn.model.dnn import DNN
from nn.model.history import History
from nn.model.lenet5 import LeNet5
from nn.model.model import Model
from nn.model.resnet20 import ResNet20
from nn.model.sequential import SequentialModel
from nn.model.tensors import ModelFileError
from nn.model.transformer import Transformer

__all__ = [
    "DNN", "AlexNet", "Fragment", "History", "LeNet5", "Model", "ModelFileError", "ResNet20", "SequentialModel",
    "Transformer",
]  # fmt: skip
