"""A small transformer that learns to write, character by character.

python examples/nn/character_transformer.py                    learns from the source code of nn
python examples/nn/character_transformer.py book.txt           learns from a text of your own (UTF-8), or from several
python examples/nn/character_transformer.py --epochs 6         learns longer, and writes better
"""

import math
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import nn
from nn.gradient_descent.schedule import Cosine, WarmUp

LENGTH = 64
BATCH = 16


def main() -> int:
    """Train, tell how well the model foresees text it has not seen, and let it write."""
    parser = psgd.OptionParser(description="Train a character transformer and let it write.")
    parser.add_argument("text", nargs="*", type=Path, help="text files to learn from (default: the source code of nn)")
    parser.add_argument("--epochs", type=psgd.positive, default=2, help="passes over the text (default 2, about 40 s)")
    parser.add_argument("--features", type=psgd.positive, default=64, help="numbers per position, a multiple of 4 (default 64)")
    parser.add_argument("--blocks", type=psgd.positive, default=2, help="blocks of attention and feed-forward (default 2)")
    parser.add_argument("--characters", type=psgd.positive, default=400, help="how many characters to write (default 400)")
    parser.add_argument(
        "--temperature", type=psgd.above_0, default=0.7, help="below 1 it dares less, above 1 more (default 0.7)"
    )
    options = parser.parse_args()
    if options.features % 4:
        parser.error(f"argument --features: must be a multiple of 4, got {options.features}")

    paths = options.text or sorted(Path(nn.__file__).parent.rglob("*.py"))
    data = nn.dataset.CharacterText(paths, LENGTH, test_fraction=0.05)
    try:
        train_x, train_y, test_x, test_y = data.load()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    vocabulary = data.vocabulary
    print(f"{train_x.size + test_x.size} characters, {len(vocabulary)} different ones, from {len(paths)} files.")

    model = nn.model.Transformer(len(vocabulary), LENGTH, options.features, blocks=options.blocks)
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    steps = options.epochs * math.ceil(len(train_x) / BATCH)
    warm = max(1, min(50, steps // 10))
    rate = WarmUp(Cosine(4e-3, steps, 1e-4), warm)
    model.compile(nn.gradient_descent.ADAMWOptimizer(rate, beta2=0.99, clip_norm=1.0))
    model.summary()
    model.fit(train_x, train_y, epoch=options.epochs, batch_size=BATCH, validation_data=(test_x, test_y))

    bits = model.evaluate(test_x, test_y, batch_size=BATCH)["Loss"] / math.log(2)
    print(f"{bits:.2f} bits per character on text it has not seen ({math.log2(len(vocabulary)):.2f} before it knew anything).")
    ids = model.generate(test_x[0, : LENGTH // 2], options.characters, temperature=options.temperature)
    print("It writes on from", repr("".join(vocabulary[each] for each in ids[: LENGTH // 2])) + ":")
    print("-" * 80)
    print("".join(vocabulary[each] for each in ids[LENGTH // 2 :]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
