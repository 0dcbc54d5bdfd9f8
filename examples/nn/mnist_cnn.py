"""A small convolutional network on handwritten digits.

python examples/nn/mnist_cnn.py                     trains on MNIST where its files are on this machine, else on Digits
python examples/nn/mnist_cnn.py --download          fetches MNIST (11 MB) once if it is not here
python examples/nn/mnist_cnn.py --save cnn.model    writes the trained model

Digits are 1,797 smaller images that are part of the package; the program says which ones it took.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import nn
import nn.dataset.transforms as transforms
from nn.activation import ReLU, Softmax
from nn.arrays import Array
from nn.layer import Conv2D, Dense, Dropout, Flatten, MaxPool


def load(directory: Path | None, download: bool) -> tuple[Array, Array, Array, Array]:
    """Return images (n, side, side, 1) from 0 to 1 and class numbers, to train and to evaluate on."""
    data: nn.dataset.AbsDataset = nn.dataset.MNIST(directory)
    try:
        arrays = data.load(download)
    except FileNotFoundError:
        if directory is not None or download:
            raise
        data = nn.dataset.Digits()
        arrays = transforms.Augment(copies=8, flip=False, crop=1)(*data.load())
        print("MNIST is not on this machine (--download fetches it), so this run takes Digits, each moved about 8 times.")
    train_x, train_y, test_x, test_y = arrays
    print(f"{type(data).__name__}: {len(train_x)} images to train on, {len(test_x)} to evaluate on.")
    train_x, _, test_x, _ = transforms.ImageCls(flatten=False)(train_x, train_y, test_x, test_y)
    return train_x[..., None], train_y, test_x[..., None], test_y


def build(side: int) -> nn.model.SequentialModel:
    """Return the network, not trained."""
    model = nn.model.SequentialModel(input_shape=[-1, side, side, 1])
    model.add(Conv2D(16, 3, padding="same", activation=ReLU()))
    model.add(MaxPool(2))
    model.add(Conv2D(32, 3, padding="same", activation=ReLU()))
    model.add(MaxPool(2))
    model.add(Flatten())
    model.add(Dropout(0.3))
    model.add(Dense(64, activation=ReLU()))
    model.add(Dense(10, activation=Softmax()))
    return model


def main() -> int:
    """Train, evaluate after every epoch, and save the model if asked to."""
    parser = psgd.OptionParser(description="Train a small convolutional network on handwritten digits.")
    parser.add_argument("--epochs", type=psgd.positive, help="passes over the images (default 2; with few images 6)")
    parser.add_argument("--directory", type=psgd.existing, help="where the four files of MNIST are")
    parser.add_argument("--download", action="store_true", help="fetch MNIST if it is not on this machine")
    parser.add_argument("--save", type=psgd.new_file, metavar="FILE", help="write the trained model")
    options = parser.parse_args()

    try:
        train_x, train_y, test_x, test_y = load(options.directory, options.download)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    epochs = options.epochs or (2 if len(train_x) > 20000 else 6)
    model = build(train_x.shape[1])
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(2e-3))
    model.summary()
    model.fit(train_x, train_y, epoch=epochs, batch_size=64, validation_data=(test_x, test_y))
    accuracy = model.evaluate(test_x, test_y)["accuracy"]
    print(f"Accuracy on images it has not seen: {accuracy:.4f}")
    if options.save:
        model.save(options.save)
        print(f"The model is in {options.save}; nn.model.Model.load reads it.")
    return int(accuracy < 0.9)


if __name__ == "__main__":
    raise SystemExit(main())
