"""Layers that draw numbers, wrap others or hold a function: one, two and four workers train them to the same bits."""

from __future__ import annotations

import nn
from nn import layer
from nn.value import Value
from parallel_sgd.profiles import FixedBlockAssignment
from tests.parallel_sgd.digits_job import DigitsJob, digits, plan_of


def doubled(x: Value) -> Value:
    return x * 2


def network() -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 64], seed=5)
    for each in (
        layer.Reshape([8, 8, 1]), layer.Lambda(doubled), layer.ZeroPadding(1), layer.SeparableConv2D(4, 3, 2),
        layer.GroupNorm(2), layer.PReLU(shared_axes=[1, 2]), layer.SpatialDropout(0.1), layer.Conv2DTranspose(3, 3, 2, "same"),
        layer.GaussianNoise(0.1), layer.UpSampling(2), layer.Cropping(2), layer.Conv2D(4, 3, dilation=2, activation="mish"),
        layer.Reshape([8, -1]), layer.TimeDistributed(layer.Dense(6, "selu")), layer.RMSNorm(), layer.GaussianDropout(0.1),
        layer.Bidirectional(layer.GRU(4)), layer.Dense(10, "softmax"),
    ):  # fmt: skip
        model.add(each)
    model.setup("crossentropy_with_softmax", "accuracy")
    return model


def test_any_number_of_workers_gives_the_same_bits() -> None:
    x, y, *test = digits()
    found = []
    for nodes in (1, 2, 4):
        plan = plan_of(FixedBlockAssignment(nodes, 1, 4), block_size=16, epoch=1, seed=11)
        job = DigitsJob(plan, network(), data=(x[:200], y[:200], *test), classes={"doubled": doubled}).run()
        found += job.weights()
    assert len(found) == 7
    assert len(set(found)) == 1
    assert found[0] != network().store.values.tobytes()
