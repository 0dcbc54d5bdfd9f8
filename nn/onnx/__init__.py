"""ONNX files: models of nn for other programs, and models of others for nn. Nothing beside NumPy is needed.

Source: https://onnx.ai/onnx/operators. `nn.onnx.save(model, path)` writes one, `nn.onnx.load(path)` reads one.
"""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.onnx.export import save, to_bytes
    from nn.onnx.reader import from_bytes, load

__all__ = ["from_bytes", "load", "save", "to_bytes"]
lazily(__name__, {"export": "save to_bytes", "reader": "from_bytes load"})
