"""Which learning rate and how many units suit a small network on Digits? joblib asks two workers that are started for it.

python examples/executor/hyper_parameter_search.py [--workers N] [--epochs N]

A task builds a model, trains it and returns a score: results are data, so the model itself stays where it was trained.
"""

import itertools
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

from tqdm import tqdm

import nn
import nn.dataset.transforms as transforms
from executor import ClusterExecutor, local_nodes, register_joblib
from nn.activation import Softmax, Tanh
from nn.layer import Dense

RATES = (0.0003, 0.001, 0.003, 0.01)
UNITS = (8, 32, 128)


def accuracy(rate: float, units: int, epochs: int) -> float:
    """Train a network, and return its accuracy on images that it has not seen."""
    train_x, train_y, test_x, test_y = transforms.ImageCls()(*nn.dataset.Digits().load())
    model = nn.model.SequentialModel(input_shape=[-1, 64])
    model.add(Dense(units, activation=Tanh()))
    model.add(Dense(10, activation=Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(rate))
    model.fit(train_x, train_y, epoch=epochs, batch_size=50, verbose=0)
    return float(model.evaluate(test_x, test_y)["accuracy"])


def main() -> int:
    """Try every pair, and print a table of the scores."""
    try:
        from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise SystemExit("This example needs joblib: pip install joblib") from None
    parser = psgd.OptionParser(description="Search for hyper-parameters on several workers.")
    parser.add_argument("--workers", type=psgd.positive, default=2, help="processes on this machine (default 2)")
    parser.add_argument("--epochs", type=psgd.positive, default=6, help="passes over the images for each pair (default 6)")
    options = parser.parse_args()
    pairs = list(itertools.product(UNITS, RATES))
    with local_nodes(options.workers) as nodes, ClusterExecutor(nodes) as executor:
        register_joblib(executor)
        with parallel_config(backend="psgd"):
            calls = (delayed(accuracy)(rate, units, options.epochs) for units, rate in pairs)
            scores = list(tqdm(Parallel(return_as="generator", batch_size=1)(calls), total=len(pairs)))
    found = dict(zip(pairs, scores, strict=True))
    print("units   " + "".join(f"{f'rate {rate}':>13}" for rate in RATES))
    for units in UNITS:
        print(f"{units:>5}   " + "".join(f"{found[units, rate]:>13.3f}" for rate in RATES))
    units, rate = max(pairs, key=found.__getitem__)
    print(f"The best of these: {units} units and a learning rate of {rate}, accuracy {found[units, rate]:.3f}.")
    return int(found[units, rate] < 0.8)


if __name__ == "__main__":
    raise SystemExit(main())
