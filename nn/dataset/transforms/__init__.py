"""Transforms of a data set before training; `add` chains one transform to the next."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.dataset.transforms.abstract import AbsTransformer, Chain, build, describe
    from nn.dataset.transforms.buckets import Buckets
    from nn.dataset.transforms.images import Augment, ImageCls
    from nn.dataset.transforms.labels import OneHot
    from nn.dataset.transforms.normalize import Normalize, NormalizeLabels
    from nn.dataset.transforms.order import Dirichlet, Make_Non_IID, Shuffle, True_Non_IID
    from nn.dataset.transforms.texts import StringLookup, TextVectorization
    from nn.dataset.transforms.windows import Windows

__all__ = [
    "AbsTransformer",
    "Augment",
    "Buckets",
    "Chain",
    "Dirichlet",
    "ImageCls",
    "Make_Non_IID",
    "Normalize",
    "NormalizeLabels",
    "OneHot",
    "Shuffle",
    "StringLookup",
    "TextVectorization",
    "True_Non_IID",
    "Windows",
    "build",
    "describe",
]
lazily(
    __name__,
    {
        "abstract": "AbsTransformer Chain build describe",
        "buckets": "Buckets",
        "images": "Augment ImageCls",
        "labels": "OneHot",
        "normalize": "Normalize NormalizeLabels",
        "order": "Dirichlet Make_Non_IID Shuffle True_Non_IID",
        "texts": "StringLookup TextVectorization",
        "windows": "Windows",
    },
)
