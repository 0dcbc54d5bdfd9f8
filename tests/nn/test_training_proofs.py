"""Training on real data reaches what it must reach.

One thread computes, so that results are the same on few and on many cores. Times are the smaller of wall and processor time,
so that a machine that is busy with other things does not fail a test.
"""

import math
import os
import time
from pathlib import Path

import numpy as np
import pytest

import nn
from nn.activation import ReLU, Softmax
from nn.arrays import Array
from nn.dataset.idx import read_idx
from nn.dataset.transforms import Augment, ImageCls
from nn.gradient_descent import ADAMOptimizer, ADAMWOptimizer
from nn.gradient_descent.schedule import Cosine, WarmUp
from nn.layer import LSTM, Conv2D, Dense, Dropout, Flatten, Layer, MaxPool
from nn.loss import Cross_Entropy_With_Softmax
from nn.model import LeNet5, Model, SequentialModel, Transformer
from nn.random import keyed
from nn.threads import limited_to_one_thread

MNIST = Path(os.environ.get("PSGD_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")) / "mnist"
Arrays = tuple[Array, Array, Array, Array]


@pytest.fixture(scope="module")
def mnist() -> Arrays:
    """The 10,000 test images of MNIST: 8,500 to train on, 1,500 to evaluate on."""
    if not (MNIST / "t10k-images-idx3-ubyte.gz").is_file():
        pytest.skip(f"there is no MNIST in {MNIST}; PSGD_SHARED_DATA names the folder that holds mnist/")
    images, labels = (read_idx(MNIST / f"t10k-{part}-ubyte.gz") for part in ("images-idx3", "labels-idx1"))
    rows = images / np.float32(255)
    return rows[:8500], labels[:8500], rows[8500:], labels[8500:]


def train(model: Model, data: Arrays, epochs: int, rate: float, batch: int = 64, smoothing: float = 0.0) -> tuple[float, float]:
    """Train with Adam at a rate that falls to 0; return the accuracy on the test part, and the seconds it took."""
    x, y, test_x, test_y = data
    model.setup(Cross_Entropy_With_Softmax(smoothing), nn.metric.CategoricalAccuracy())
    model.compile(ADAMOptimizer(Cosine(rate, epochs * math.ceil(len(x) / batch))))
    with limited_to_one_thread():
        wall, processor = time.perf_counter(), time.process_time()
        model.fit(x, y, epoch=epochs, batch_size=batch, verbose=0)
        seconds = min(time.perf_counter() - wall, time.process_time() - processor)
        return model.evaluate(test_x, test_y)["accuracy"], seconds


@pytest.mark.long
def test_a_small_cnn_reads_digits() -> None:
    """0.97 in 60 s, on the 297 images of writers that it has not seen; every training image also moved, by 0 or 1 pixels."""
    x, y, test_x, test_y = ImageCls(flatten=False)(*Augment(copies=4, flip=False, crop=1)(*nn.dataset.Digits().load()))
    layers: list[Layer] = [
        Conv2D(24, 3, padding="same", activation=ReLU()),
        Conv2D(48, 3, activation=ReLU()),
        MaxPool(2),
        Dropout(0.2),
        Conv2D(96, 3, activation=ReLU()),
        Flatten(),
        Dropout(0.4),
        Dense(10, activation=Softmax()),
    ]
    data = (x[..., None], y, test_x[..., None], test_y)
    accuracy, seconds = train(SequentialModel([-1, 8, 8, 1], layers), data, epochs=7, rate=3e-3, smoothing=0.1)
    assert accuracy >= 0.97
    assert seconds < 60


@pytest.mark.long
def test_a_cnn_reads_mnist(mnist: Arrays) -> None:
    """0.975 in 90 s, by LeNet-5 with rectifiers and maxima."""
    x, y, test_x, test_y = mnist
    model = LeNet5(activation=ReLU(), max_pool=True)
    accuracy, seconds = train(model, (x[..., None], y, test_x[..., None], test_y), epochs=5, rate=2e-3)
    assert accuracy >= 0.975
    assert seconds < 90


@pytest.mark.long
def test_an_lstm_reads_mnist_row_by_row(mnist: Arrays) -> None:
    model = SequentialModel([-1, 28, 28], [LSTM(64), Dense(10, activation=Softmax())])
    accuracy, _ = train(model, mnist, epochs=4, rate=6e-3, batch=32)
    assert accuracy >= 0.94


def drawn(images: Array) -> str:
    """Return images as text: a character for each pixel, from white to black, a line for each row, an empty line after each."""
    inks = np.array(list(" .:-=+*#%"))[np.rint(images * (8 / 255)).astype(int)]
    return "".join("\n".join("".join(row) for row in image) + "\n\n" for image in inks)


def drawn_digits() -> tuple[str, str]:
    images, _, others, _ = nn.dataset.Digits().load()
    return drawn(images), drawn(others)


def bits_of_a_transformer(text: str, held: str, length: int, features: int, steps: int) -> float:
    """Train on random windows of a text; return the bits per character of another one behind its first length / 2 characters.

    Each of them is foreseen from at least length / 2 and less than `length` characters.
    """
    vocabulary = sorted(set(text + held))
    places = {character: place for place, character in enumerate(vocabulary)}
    ids, others = (np.array([places[character] for character in each], np.int32) for each in (text, held))
    model = Transformer(len(vocabulary), length, features)
    model.setup(Cross_Entropy_With_Softmax())
    rate = WarmUp(Cosine(4e-3, steps - 50, 1e-4), 50)
    model.compile(ADAMWOptimizer(rate, beta2=0.99, clip_norm=1.0))
    starts = keyed(0, "windows").integers(0, len(ids) - length, (steps, 8))
    windows = starts[..., None] + np.arange(length)
    half = length // 2
    count = (len(others) - 1 - length) // half + 1
    rows = np.arange(count)[:, None] * half + np.arange(length)
    with limited_to_one_thread():
        model.fit(((ids[each], ids[each + 1]) for each in windows), epoch=1, steps_per_epoch=steps, verbose=0)
        score = model.predict(others[rows], 64)[:, half:].astype(np.float64)
    score -= score.max(axis=-1, keepdims=True)
    right = np.take_along_axis(score, others[rows + 1][:, half:, None], axis=-1)[..., 0]
    return float((np.log(np.exp(score).sum(axis=-1)) - right).mean() / math.log(2))


@pytest.mark.timeout(300)
@pytest.mark.long
def test_a_transformer_foresees_text_better_than_n_grams() -> None:
    """Against the best order from 1 to 6, smoothed after Witten and Bell and after Kneser and Ney, on text that none has seen.

    The text: the handwritten digits of nn/dataset/digits.npz, drawn with characters. What a pixel is shows in the row above it,
    nine characters back. 1.65 bits per character after 3 s; of the n-grams, counted once for this text, the best needs 1.832.
    """
    assert bits_of_a_transformer(*drawn_digits(), length=36, features=48, steps=500) < 1.832
