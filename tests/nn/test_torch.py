"""Cross-check of a whole training with torch; its parts have cross-checks of their own."""

from typing import Any

import nn
from nn.arrays import Array
from nn.random import keyed
from tests.nn.golden import Golden, optional

torch = optional("torch")


def test_training_a_whole_network(golden: Golden) -> None:
    generator = keyed(1, "torch")
    x, y = generator.standard_normal((96, 12)), generator.integers(0, 4, 96)
    model = nn.model.SequentialModel([-1, 12], dtype="float64")
    model.add(nn.layer.Dense(20, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(4, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))

    def compute() -> list[Any]:
        network = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.Tanh(), torch.nn.Linear(20, 4)).double()
        for place, variable in zip((0, 0, 2, 2), model.trainable_variables(), strict=True):
            name = "weight" if variable.value.ndim == 2 else "bias"
            value: Array = variable.value.T.copy() if variable.value.ndim == 2 else variable.get_value()
            setattr(network[place], name, torch.nn.Parameter(torch.tensor(value)))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        inputs, labels = torch.tensor(x), torch.tensor(y)
        for _ in range(5):
            for start in range(0, 96, 16):
                optimizer.zero_grad()
                part = slice(start, start + 16)
                torch.nn.functional.cross_entropy(network(inputs[part]), labels[part]).backward()
                optimizer.step()
        return [torch.softmax(network(inputs), -1)]

    [expected] = golden(compute, x, y, model.store.values, needs=torch)
    model.fit(x, y, epoch=5, batch_size=16, shuffle=False, verbose=0)
    expected.close(model.predict(x), rtol=1e-6)
