"""The job on which codecs are judged by what they learn: 10,000 images of MNIST, the tutorial model, 4 workers, 300 steps."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nn
from nn.dataset import ArrayDataset
from nn.dataset.idx import read_idx
from nn.dataset.transforms import ImageCls
from nn.gradient_descent import ADAMOptimizer, IGradientDescent, MomentumOptimizer, SGDOptimizer
from nn.model import Model, SequentialModel
from nn.optimizer import IOptimizer, LocalUpdateOptimizer, OpContainer, ParameterAveragingOptimizer, PSGDOptimizer
from nn.random import keyed
from nn.threads import limited_to_one_thread
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.codec import Codec, SizeAdaptive
from parallel_sgd.codec.compose import CodecWarning, check
from tests.parallel_sgd.codec.fleet import SMALL, Dense, Fleet

WORKERS, BLOCK, EPOCHS, BATCHES = 4, 64, 10, 30
TRAIN, TEST = 8_000, 2_000
SEEN = BATCHES * WORKERS * BLOCK  # of the training images in each epoch, so that there are 300 steps
_IMAGES, _LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
_SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "mnist"


@dataclass(frozen=True)
class Setting:
    """Where the rule is, which one, and its arguments; the name is the contract's letter or our own."""

    name: str
    op_type: type[IOptimizer]
    gd_type: type[IGradientDescent]
    gd_params: tuple[float, ...]


M = Setting("M", PSGDOptimizer, MomentumOptimizer, (0.1, 0.9))  # momentum after the mean
M_INSIDE = Setting("M_INSIDE", PSGDOptimizer, SGDOptimizer, (0.1,))  # setting M for codecs that bring the momentum themselves
VOTE = Setting("VOTE", PSGDOptimizer, SGDOptimizer, (3e-4,))  # every coordinate moves by exactly the rate
N = Setting("N", LocalUpdateOptimizer, SGDOptimizer, (0.5,))  # what is left over is remembered as a part of lr * g
A = Setting("A", LocalUpdateOptimizer, ADAMOptimizer, (1e-3,))
LOCAL_MOMENTUM = Setting("LOCAL_MOMENTUM", LocalUpdateOptimizer, MomentumOptimizer, (0.03, 0.9))
PARAMETERS = Setting("PARAMETERS", ParameterAveragingOptimizer, SGDOptimizer, (0.5,))


@dataclass(frozen=True)
class Outcome:
    """What a run gave: percent of the test images, bytes of the arrays that were sent, and the text of every CodecWarning."""

    accuracy: float
    bytes_sent: int
    warned: tuple[str, ...]


def data_directory() -> Path | None:
    """Where the two files are: ``$PSGD_DATA/mnist``, ``$PSGD_DATA`` or the project's shared data; None where they are not."""
    own = os.environ.get("PSGD_DATA")
    places = [Path(own) / "mnist", Path(own), _SHARED] if own else [_SHARED]
    return next((place for place in places if (place / _IMAGES).is_file() and (place / _LABELS).is_file()), None)


@functools.cache
def images() -> ArrayDataset:
    """The first 8,000 images to train on, in an order drawn once, and the last 2,000 to test on."""
    directory = data_directory()
    if directory is None:
        raise FileNotFoundError(f"{_IMAGES} and {_LABELS} are neither in $PSGD_DATA nor in {_SHARED}")
    x, y = read_idx(directory / _IMAGES), read_idx(directory / _LABELS)
    train = keyed(0, "mnist of the codecs").permutation(TRAIN)[:SEEN]
    return ArrayDataset(x[train], y[train], x[TRAIN : TRAIN + TEST], y[TRAIN : TRAIN + TEST])


@functools.cache
def _samples() -> tuple[np.ndarray, ...]:
    return tuple(ImageCls()(*images().load()))


def tutorial(seed: int) -> Model:
    """784-128-128-10 with tanh: 118,282 parameters."""
    model = SequentialModel(input_shape=[-1, 784], seed=seed)
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model


def learn(
    setting: Setting, codec: type[Codec], parameters: Mapping[Hashable, Any] | None = None, seed: int = 0, epochs: int = EPOCHS
) -> Outcome:
    """Train as `run` does, biases dense, with codecs that hand each other their packets."""
    x, y, test_x, test_y = _samples()
    container = OpContainer(setting.op_type, setting.gd_type, setting.gd_params)
    with limited_to_one_thread():
        models = [tutorial(seed) for _ in range(WORKERS)]
        fleet = Fleet(models, codec, container, parameters or {}, seed)
        for batch in range(epochs * BATCHES):
            first = batch % BATCHES * WORKERS
            blocks = [slice(block * BLOCK, (block + 1) * BLOCK) for block in range(first, first + WORKERS)]
            fleet.step(*divmod(batch, BATCHES), [(x[block], y[block]) for block in blocks])
        models[0].store.values[:] = np.mean([model.store.values for model in models], axis=0)
        accuracy = 100 * models[0].evaluate(test_x, test_y)[models[0].metrics[0].name]
    return Outcome(accuracy, fleet.raw, warnings_of(setting, codec, parameters))


def warnings_of(setting: Setting, codec: type[Codec], parameters: Mapping[Hashable, Any] | None = None) -> tuple[str, ...]:
    """What a job warns of before it begins."""
    rule = OpContainer(setting.op_type, setting.gd_type, setting.gd_params).rule()
    return tuple(check(codec, rule, setting.op_type, parameters))


def run(setting: Setting, directory: Path, codec: type[Codec], epochs: int, seed: int = 0) -> Outcome:
    """Train a whole job, biases dense, and judge the mean model of the workers; the files of the job go to `directory`."""
    with in_process(WORKERS) as nodes, limited_to_one_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CodecWarning)
        result = ParallelSGD(tutorial(seed), images(), ImageCls()).parallel(
            nodes,
            block_size=BLOCK,
            epoch=epochs,
            op_type=setting.op_type,
            gd_type=setting.gd_type,
            gd_params=setting.gd_params,
            codec=SizeAdaptive(big=codec, small=Dense, min=SMALL),
            seed=seed,
            shuffle=False,
            directory=directory,
        )
    sent = sum(entry.raw for rows in result.accounts.values() for entry in rows if entry.direction == "sent")
    return Outcome(100 * _mean_model_accuracy(result), sent, tuple(str(one.message) for one in caught))


def _mean_model_accuracy(result: JobResult) -> float:
    """Of the mean of all workers' parameters; where an exchange makes these equal it is the accuracy of each of them."""
    mean = Model.from_bytes(result.models[0].to_bytes())
    mean.store.values[:] = np.mean([model.store.values for model in result.models.values()], axis=0)
    _, _, test_x, test_y = _samples()
    return mean.evaluate(test_x, test_y)[mean.metrics[0].name]
