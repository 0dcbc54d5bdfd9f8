"""Writer of the signatures of Keras's constructors, which a test compares with those of `nn`.

    python -m benchmarks.nn.keras_signatures tests/nn/keras_signatures.json

Reads the source of the installed Keras, which needs no backend for that, and stores its version beside the signatures.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import importlib.util
import json
from pathlib import Path

FOLDERS = ("callbacks", "initializers", "layers", "losses", "metrics", "optimizers")
CLASSES = (
    "Adadelta", "Adagrad", "Adam", "AdamW", "AveragePooling2D", "BatchNormalization", "BinaryAccuracy",
    "CategoricalCrossentropy", "Concatenate", "Constant", "Conv1D", "Conv2D", "CosineDecay", "CSVLogger", "Dense", "Dropout",
    "EarlyStopping", "Embedding", "ExponentialDecay", "FalseNegatives", "FalsePositives", "GRU", "Huber", "Lamb",
    "LayerNormalization", "LeakyReLU", "LSTM", "MaxPooling2D", "ModelCheckpoint", "MultiHeadAttention", "Orthogonal",
    "Precision", "RandomUniform", "Recall", "ReduceLROnPlateau", "Reshape", "RMSprop", "SGD", "SimpleRNN",
    "TopKCategoricalAccuracy", "TrueNegatives", "TruePositives", "TruncatedNormal",
)  # fmt: skip


def signature(node: ast.FunctionDef) -> dict[str, str]:
    """Return the arguments of a constructor with the source of their defaults, "required" where there is none."""
    given = [argument.arg for argument in node.args.args[1:]]
    defaults = ["required"] * (len(given) - len(node.args.defaults)) + [ast.unparse(each) for each in node.args.defaults]
    found = dict(zip(given, defaults, strict=True))
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        found[argument.arg] = "required" if default is None else ast.unparse(default)
    return found


def signatures(root: Path) -> dict[str, dict[str, str]]:
    """Return the signatures of the chosen classes by name, given the folder of Keras's source."""
    found: dict[str, dict[str, str]] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for kind in ast.parse(path.read_text("utf-8")).body:
                if isinstance(kind, ast.ClassDef) and kind.name in CLASSES:
                    makers = [each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
                    if makers:
                        found[kind.name] = signature(makers[0])
    return dict(sorted(found.items()))


def main() -> None:
    """Write the file that is named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nn.keras_signatures", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("file", type=Path, help="where they are written, as JSON")
    chosen = parser.parse_args()
    found = importlib.util.find_spec("keras")
    if found is None or found.origin is None:
        parser.error("Keras is not installed: pip install --group bench")
    content = {"keras": importlib.metadata.version("keras"), "signatures": signatures(Path(found.origin).parent / "src")}
    chosen.file.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
