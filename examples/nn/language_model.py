"""A small language model on byte-pair tokens, trained alone and on workers of this machine, beside a bigram model.

python examples/nn/language_model.py                       learns the texts of Python's help(), in some minutes on two cores
python examples/nn/language_model.py book.txt --epochs 4   learns a file of your own
python examples/nn/language_model.py --workers 0           trains alone only
"""

import argparse
import math
import pydoc_data.topics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

import nn
import parallel_sgd
from network import NodeAssignment
from nn.arrays import Array
from nn.dataset import BytePairs, TokenText
from nn.dataset.transforms import Shuffle
from nn.gradient_descent.schedule import Cosine, WarmUp
from parallel_sgd import JobResult
from parallel_sgd.profiles import FixedBlockAssignment

OUTPUT = Path("language-output")
BLOCK, BLOCKS = 16, 2
"""Windows of a block, and blocks of a step: one worker computes both, of two workers each computes one."""

HELD = 0.1
"""Share of the text, its end, that is evaluated on."""


def bigram_loss(train: Array, x: Array, y: Array, vocabulary: int) -> float:
    """Return the cross-entropy per token of the best bigram model, whose smoothing is even chosen by the tokens it foresees.

    p(b | a) = (count(a b) + c p(b)) / (count(a) + c), where p(b) = (count(b) + 1) / (all + vocabulary).
    """
    pairs = np.bincount(train[:-1].astype(np.int64) * vocabulary + train[1:], minlength=vocabulary**2)
    pairs = pairs.reshape(vocabulary, vocabulary).astype(np.float64)
    single = (np.bincount(train, minlength=vocabulary) + 1) / (len(train) + vocabulary)
    seen, of_first = pairs[x, y], pairs.sum(axis=1)[x]
    return min(float(-np.log((seen + c * single[y]) / (of_first + c)).mean()) for c in 2.0 ** np.arange(-3, 12))


def train(
    options: argparse.Namespace, data: TokenText, steps: int, nodes: NodeAssignment, folder: str
) -> JobResult[nn.model.Transformer]:
    """Train a new model on the nodes."""
    model = nn.model.Transformer(
        data.tokens.vocabulary, data.length, options.features, blocks=options.blocks, rotary=True, tied=True, seed=1
    )
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    rate = WarmUp(Cosine(options.rate, steps, options.rate / 20), max(1, min(50, steps // 10)))
    job = parallel_sgd.ParallelSGD(model, data, Shuffle())
    return job.parallel(
        nodes,
        epoch=options.epochs,
        block_size=BLOCK,
        assignment_type=FixedBlockAssignment.of(blocks=BLOCKS),
        gd_type=nn.gradient_descent.ADAMWOptimizer,
        gd_params={"learn_rate": rate, "beta2": 0.99, "clip_norm": 1.0},
        seed=1,
        directory=OUTPUT / folder,
    )


def main() -> int:
    """Train, compare with the bigram model and, bit by bit, with the run on workers, and let the model write."""
    parser = psgd.OptionParser(description="Train a small language model, alone and on workers of this machine.")
    parser.add_argument("text", nargs="?", type=Path, help="file to learn from (default: pydoc_data/topics.py of this Python)")
    parser.add_argument("--vocabulary", type=psgd.positive, default=512, help="byte-pair tokens, at least 256 (default 512)")
    parser.add_argument("--length", type=psgd.positive, default=64, help="tokens of a window (default 64)")
    parser.add_argument("--features", type=psgd.positive, default=96, help="numbers per position, a multiple of 8 (default 96)")
    parser.add_argument("--blocks", type=psgd.positive, default=2, help="blocks of attention and feed-forward (default 2)")
    parser.add_argument("--epochs", type=psgd.positive, default=2, help="passes over the text (default 2)")
    parser.add_argument("--rate", type=psgd.above_0, default=6e-3, help="greatest learning rate (default 0.006)")
    parser.add_argument("--workers", type=int, choices=(0, 1, 2), default=2, help="workers of the second run (default 2)")
    parser.add_argument("--write", type=psgd.positive, default=120, help="how many tokens to write (default 120)")
    parser.add_argument("--temperature", type=psgd.above_0, default=0.7, help="below 1 it dares less (default 0.7)")
    options = parser.parse_args()
    if options.features % 8:
        parser.error(f"argument --features: must be a multiple of 8, got {options.features}")
    if options.vocabulary < 256:
        parser.error(f"argument --vocabulary: must be at least 256, got {options.vocabulary}")
    path = options.text or Path(pydoc_data.topics.__file__)
    try:
        content = path.read_bytes()
        # Learned from the part to train on: the end of the text stays unseen.
        tokens = BytePairs.learn(content[: round((1 - HELD) * len(content))], options.vocabulary)
        data = TokenText(path.absolute(), tokens, options.length, test_fraction=HELD)
        train_x, _, test_x, test_y = data.load()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"{len(content)} bytes are {len(tokens.encode(content))} of {tokens.vocabulary} tokens.")

    steps = options.epochs * math.ceil(len(train_x) / (BLOCK * BLOCKS))
    with parallel_sgd.in_process(1) as nodes:
        alone = train(options, data, steps, nodes, "alone")
    model = alone.models[0]
    same = True
    if options.workers:
        with parallel_sgd.local_workers(options.workers) as nodes:
            together = train(options, data, steps, nodes, "together")
        bits = model.store.values.tobytes()
        same = all(each.store.values.tobytes() == bits for each in together.models.values())
        workers = f"{options.workers} worker{'s' * (options.workers != 1)}"
        print(f"The weights of {workers} are {'equal to the last bit' if same else 'NOT equal'}.")

    loss = model.evaluate(test_x, test_y, batch_size=BLOCK)["Loss"]
    bigram = bigram_loss(train_x.reshape(-1), test_x, test_y, tokens.vocabulary)
    per_byte = test_y.size / len(tokens.decode(test_y)) / math.log(2)
    print(f"Loss on text it has not seen: {loss:.3f}, of the best bigram model {bigram:.3f}.")
    print(f"That is {loss * per_byte:.2f} bits per byte, and {bigram * per_byte:.2f}.")
    beginning = test_x[0, : options.length // 2]
    written = model.generate(beginning, options.write, temperature=options.temperature, top_p=0.95)
    print("It writes on from", repr(tokens.decode(beginning).decode("utf-8", "replace")) + ":")
    print("-" * 80)
    print(tokens.decode(written[len(beginning) :]).decode("utf-8", "replace"))
    return 0 if same and loss < bigram else 1


if __name__ == "__main__":
    raise SystemExit(main())
