"""Watching a training in one process: a callback sends the signals. Under `parallel()` the workers send them by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import nn
import parallel_sgd
from nn.dataset.transforms import ImageCls


def main() -> None:
    """Train with `Model.fit`; inside a job of `rpc` the agent would notice a batch that does not end."""
    psgd.no_options(__doc__)
    train_x, train_y, test_x, test_y = ImageCls()(*nn.dataset.Digits().load())
    model = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    model.add(nn.layer.Dense(32, activation=nn.activation.ReLU()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer())
    model.fit(train_x, train_y, epoch=3, batch_size=64, callbacks=[parallel_sgd.MonitorCallback()], verbose=0)
    print(model.evaluate(test_x, test_y))


if __name__ == "__main__":
    main()
