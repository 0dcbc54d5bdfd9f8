"""What may be done to a data set before training; `add` chains one transform to the next."""

from nn.dataset.transforms.abstract import AbsTransformer, Chain
from nn.dataset.transforms.augment import Augment
from nn.dataset.transforms.description import build, describe
from nn.dataset.transforms.dirichlet import Dirichlet
from nn.dataset.transforms.image_cls import ImageCls
from nn.dataset.transforms.make_non_iid import Make_Non_IID
from nn.dataset.transforms.normalize import Normalize
from nn.dataset.transforms.normalize_labels import NormalizeLabels
from nn.dataset.transforms.one_hot import OneHot
from nn.dataset.transforms.shuffle import Shuffle
from nn.dataset.transforms.true_non_iid import True_Non_IID

__all__ = [
    "AbsTransformer",
    "Augment",
    "Chain",
    "Dirichlet",
    "ImageCls",
    "Make_Non_IID",
    "Normalize",
    "NormalizeLabels",
    "OneHot",
    "Shuffle",
    "True_Non_IID",
    "build",
    "describe",
]
