"""What may be done to a data set before training; `add` chains one transform to the next."""

from nn.dataset.transforms.abstract import AbsTransformer, Chain
from nn.dataset.transforms.description import build, describe
from nn.dataset.transforms.image_cls import ImageCls
from nn.dataset.transforms.shuffle import Shuffle

__all__ = ["AbsTransformer", "Chain", "ImageCls", "Shuffle", "build", "describe"]
