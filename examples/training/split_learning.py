"""Split learning: two executors train the halves of one network. One has the images, the other the labels.

python examples/training/split_learning.py --local 2    on two workers that are started for it
python examples/training/split_learning.py -n 2         on the first two workers of ./worker.json, where `psgd worker` runs

For every batch the front half sends activations and gets back their gradient; neither images nor labels leave their node.
In the end the weights are compared, bit for bit, with those of the same network trained in one piece.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

import network
import nn
import nn.dataset.transforms as transforms
import rpc
from nn.random import keyed
from nn.threads import blas_threads

SEED, BATCH_SIZE = 7, 50
FRONT, BACK = 0, 1


class Half(rpc.AbsExecutable):
    """What both nodes do: ask for half a model and what belongs to it, train, give the half back."""

    part: Any = None

    def requests(self) -> Sequence[str]:
        """What this node needs before it can start."""
        return ["part"]

    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        """Take the half."""
        self.part = replies[0]
        return []

    def ready(self) -> bool:
        """Whether the half is here."""
        return self.part is not None

    def prepare(self) -> None:
        """Build the half again from its file."""
        self.model = nn.model.Fragment.from_bytes(self.part["model"])
        self.samples = self.part["samples"]

    def start(self, com: rpc.Communication) -> None:
        """Train; node 0 is the front half, node 1 the back half."""
        train = self.front if com.node_id == FRONT else self.back
        for done, (rows, key) in enumerate(self.batches(), start=1):
            train(com, self.samples[rows], key)
            self.model.apply_gradients()
            com.report_progress(100 * done / self.steps)

    def done(self) -> rpc.ReplyPackage:
        """The trained half, and what was sent."""
        return rpc.ReplyPackage({"model": self.model.to_bytes(), "losses": self.part.get("losses", [])})

    @property
    def steps(self) -> int:
        """How many batches there are."""
        return int(self.part["epochs"]) * -(-len(self.samples) // BATCH_SIZE)

    def batches(self) -> Iterator[tuple[Any, tuple[int, ...]]]:
        """Give places of samples in the order in which `fit` takes them, and the key of every random draw."""
        for epoch in range(self.part["epochs"]):
            order = keyed(SEED, "order", epoch).permutation(len(self.samples))
            for batch, start in enumerate(range(0, len(order), BATCH_SIZE)):
                yield order[start : start + BATCH_SIZE], (SEED, epoch, batch, 0)

    def front(self, com: rpc.Communication, images: Any, key: tuple[int, ...]) -> None:
        """Send activations, get their gradient."""
        com.send_one(BACK, self.model.forward(images, key))
        _, gradient = com.get_one()
        self.model.backward(gradient)

    def back(self, com: rpc.Communication, labels: Any, key: tuple[int, ...]) -> None:
        """Get activations, send their gradient."""
        _, activations = com.get_one()
        loss, _ = self.model.compute_gradients(activations, labels, key=key)
        self.part.setdefault("losses", []).append(loss)
        com.send_one(FRONT, self.model.input_gradient)


def network_of_layers() -> nn.model.SequentialModel:
    """Return the whole network, with dropout on both sides of the cut, so that equal results are no accident."""
    model = nn.model.SequentialModel(input_shape=[-1, 64], seed=SEED)
    for units in (128, 64):
        model.add(nn.layer.Dense(units, activation=nn.activation.ReLU()))
        model.add(nn.layer.Dropout(0.2))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(1e-3))
    return model


def main() -> int:
    """Cut the network, train both halves, and compare them with the whole."""
    parser = psgd.OptionParser(description="Train the halves of a network on two workers.")
    parser.add_argument("-n", type=int, default=2, choices=[2], help="number of workers, from worker.json")
    parser.add_argument("--local", type=int, choices=[2], help="start two workers on this machine instead")
    parser.add_argument("--epochs", type=psgd.positive, default=10, help="passes over the images (default 10)")
    parser.add_argument("--at", default="dropout_1", help="the layer behind which the network is cut (default dropout_1)")
    options = parser.parse_args()

    images, labels, test_x, test_y = transforms.ImageCls()(*nn.dataset.Digits().load())
    whole = network_of_layers()
    try:
        halves = whole.split(options.at)
    except ValueError as error:
        parser.error(f"argument --at: {error}")
    parts = [
        {"model": half.to_bytes(), "samples": samples, "epochs": options.epochs}
        for half, samples in zip(halves, (images, labels), strict=True)
    ]
    with psgd.nodes_of(parser, options) as nodes, network.Request().request(nodes) as com:
        # bits depend on the number of BLAS threads, so the nodes take as many as this program
        job = rpc.Coordinator(com, title="Split", blas_threads=blas_threads())
        job.submit_group(Half, package_size=images.nbytes)
        job.resources_dispatch(lambda node, request: rpc.ReplyPackage(parts[node]))
        print(f"Two workers train the halves, cut behind {options.at}, for {options.epochs} epochs.", flush=True)
        results, error = job.join(stop_on_interrupt=bool(options.local))
    if error:
        return 1

    front, back = (nn.model.Model.from_bytes(results[node]["model"]) for node in (FRONT, BACK))
    losses = np.array(results[BACK]["losses"]).reshape(options.epochs, -1).mean(axis=1)
    print(f"Loss: {losses[0]:.4f} in the first epoch, {losses[-1]:.4f} in the last.")
    print(f"Accuracy of both halves together: {back.evaluate(front.predict(test_x), test_y)['accuracy']:.4f}")

    whole.fit(images, labels, epoch=options.epochs, batch_size=BATCH_SIZE, verbose=0)
    trained = {variable.name: variable.value for half in (front, back) for variable in half.store.everything}
    equal = all(np.array_equal(trained[variable.name], variable.value) for variable in whole.store.everything)
    print(f"The weights {'equal' if equal else 'differ from'} those of the undivided network, trained in one process.")
    return int(not equal)


if __name__ == "__main__":
    raise SystemExit(main())
