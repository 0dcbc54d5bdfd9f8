"""Weights from elsewhere: files of this package and safetensors, state dicts of torch, files of Keras, for `load_weights`."""

from nn.transfer.loading import Loaded, load

__all__ = ["Loaded", "load"]
