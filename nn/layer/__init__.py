"""Layers: pieces of a model with variables of their own."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.layer.activation import GLU, Activation, PReLU
    from nn.layer.attention import MultiHeadAttention
    from nn.layer.augmentation import (
        RandomContrast,
        RandomCrop,
        RandomFlip,
        RandomRotation,
        RandomTranslation,
        RandomZoom,
    )
    from nn.layer.convolution import Conv1D, Conv2D
    from nn.layer.core import Dense, Embedding, Flatten, Masking, Permute, RepeatVector, Rescaling, Reshape
    from nn.layer.layer import Layer
    from nn.layer.merging import Add, Average, Concatenate, Dot, Maximum, Minimum, Multiply, Subtract
    from nn.layer.normalization import BatchNorm, GroupNorm, LayerNorm, RMSNorm
    from nn.layer.parameter import Parameter
    from nn.layer.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
    from nn.layer.preprocessing import CategoryEncoding, CenterCrop, Normalization, Resizing
    from nn.layer.recurrent import GRU, LSTM, Recurrent, SimpleRNN
    from nn.layer.regularization import Dropout, GaussianDropout, GaussianNoise, SpatialDropout
    from nn.layer.separable_convolution import DepthwiseConv1D, DepthwiseConv2D, SeparableConv1D, SeparableConv2D
    from nn.layer.spatial import Cropping, UpSampling, ZeroPadding
    from nn.layer.transposed_convolution import Conv1DTranspose, Conv2DTranspose
    from nn.layer.wrapping import Bidirectional, Lambda, TimeDistributed

__all__ = [
    "GLU",
    "GRU",
    "LSTM",
    "Activation",
    "Add",
    "Average",
    "AveragePool",
    "BatchNorm",
    "Bidirectional",
    "CategoryEncoding",
    "CenterCrop",
    "Concatenate",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Cropping",
    "Dense",
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "Dot",
    "Dropout",
    "Embedding",
    "Flatten",
    "GaussianDropout",
    "GaussianNoise",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GroupNorm",
    "Lambda",
    "Layer",
    "LayerNorm",
    "Masking",
    "MaxPool",
    "Maximum",
    "Minimum",
    "MultiHeadAttention",
    "Multiply",
    "Normalization",
    "PReLU",
    "Parameter",
    "Permute",
    "RMSNorm",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomRotation",
    "RandomTranslation",
    "RandomZoom",
    "Recurrent",
    "RepeatVector",
    "Rescaling",
    "Reshape",
    "Resizing",
    "SeparableConv1D",
    "SeparableConv2D",
    "SimpleRNN",
    "SpatialDropout",
    "Subtract",
    "TimeDistributed",
    "UpSampling",
    "ZeroPadding",
]
lazily(
    __name__,
    {
        "activation": "GLU PReLU Activation",
        "attention": "MultiHeadAttention",
        "augmentation": "RandomContrast RandomCrop RandomFlip RandomRotation RandomTranslation RandomZoom",
        "convolution": "Conv1D Conv2D",
        "core": "Dense Embedding Flatten Masking Permute RepeatVector Rescaling Reshape",
        "layer": "Layer",
        "merging": "Add Average Concatenate Dot Maximum Minimum Multiply Subtract",
        "normalization": "BatchNorm GroupNorm LayerNorm RMSNorm",
        "parameter": "Parameter",
        "pooling": "AveragePool GlobalAveragePool GlobalMaxPool MaxPool",
        "preprocessing": "CategoryEncoding CenterCrop Normalization Resizing",
        "recurrent": "GRU LSTM Recurrent SimpleRNN",
        "regularization": "Dropout GaussianDropout GaussianNoise SpatialDropout",
        "separable_convolution": "DepthwiseConv1D DepthwiseConv2D SeparableConv1D SeparableConv2D",
        "spatial": "Cropping UpSampling ZeroPadding",
        "transposed_convolution": "Conv1DTranspose Conv2DTranspose",
        "wrapping": "Bidirectional Lambda TimeDistributed",
    },
)
