"""Linear regression as a model of one's own: two variables and one line of arithmetic, trained on points of a known line.

python examples/nn/linear_regression.py                        fits y = 3 x - 2 from 1,000 noisy points
python examples/nn/linear_regression.py --slope 0.5 --noise 1  fits another line, with more noise
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

import nn
from nn.random import keyed
from nn.value import Value


class LinearRegression(nn.model.Model):
    """y = x * w + b."""

    def __init__(self) -> None:
        super().__init__(input_shape=[-1, 1])
        self.w = nn.Variable(shape=[1, 1])
        self.b = nn.Variable(shape=[1, 1])

    def call(self, x: Value) -> Value:
        """Build the graph: runs once."""
        return x * self.w + self.b


def main() -> int:
    """Draw the points, fit the line, and compare it with the one that least squares gives in closed form."""
    parser = psgd.OptionParser(description="Fit a line to noisy points.")
    parser.add_argument("--slope", type=psgd.number, default=3.0, help="slope of the line (default 3)")
    parser.add_argument("--intercept", type=psgd.number, default=-2.0, help="its value at 0 (default -2)")
    parser.add_argument("--noise", type=psgd.number, default=0.1, help="standard deviation around the line (default 0.1)")
    parser.add_argument("--epochs", type=psgd.positive, default=20, help="passes over the points (default 20)")
    options = parser.parse_args()

    random = keyed(0, "linear regression")
    x = random.uniform(-1, 1, (1000, 1))
    y = options.slope * x + options.intercept + options.noise * random.standard_normal(x.shape)

    model = LinearRegression()
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.SGDOptimizer(0.05))
    model.summary()
    model.fit(x, y, epoch=options.epochs, batch_size=50)

    w, b = model.w.get_value().item(), model.b.get_value().item()
    best_w, best_b = np.polyfit(x[:, 0], y[:, 0], 1)
    print(f"Trained:       y = {w:.3f} x {b:+.3f}")
    print(f"Least squares: y = {best_w:.3f} x {best_b:+.3f}")
    return int(abs(w - best_w) > 0.1 + options.noise or abs(b - best_b) > 0.1 + options.noise)


if __name__ == "__main__":
    raise SystemExit(main())
