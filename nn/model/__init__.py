"""Models: `SequentialModel`, a list of layers; `Model`, to subclass; and networks that everybody knows, ready made."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.model.convolutional import AlexNet, LeNet5, ResNet20
    from nn.model.decoder import CachedDecoder
    from nn.model.history import History
    from nn.model.model import Fragment, Functional, Model
    from nn.model.sequential import DNN, SequentialModel
    from nn.model.transformer import Transformer
    from nn.tensor_files import ModelFileError

__all__ = [
    "DNN", "AlexNet", "CachedDecoder", "Fragment", "Functional", "History", "LeNet5", "Model", "ModelFileError", "ResNet20",
    "SequentialModel", "Transformer",
]  # fmt: skip
lazily(__name__, {
    "convolutional": "AlexNet LeNet5 ResNet20", "decoder": "CachedDecoder",
    "history": "History", "model": "Fragment Functional Model",
    "model_file": "ModelFileError", "sequential": "DNN SequentialModel", "transformer": "Transformer",
})  # fmt: skip
