"""Chains: order, chains of chains, and what a chain is as data."""

import numpy as np
import pytest

import nn.dataset.transforms as transforms
from nn.dataset import Digits


class Append(transforms.AbsTransformer):
    """Adds one digit to every number, so that the order can be read off the result."""

    def __init__(self, digit):
        self.digit = digit

    def __call__(self, train_x, train_y, test_x, test_y, seed=0):
        return train_x * 10 + self.digit, train_y, test_x * 10 + self.digit, test_y


def digits(transform):
    zero = np.zeros(1, int)
    return transform(zero, zero, zero, zero)[0].item()


def test_the_program_of_the_readme():
    trans = transforms.Shuffle().add(transforms.ImageCls())
    train_x, train_y, test_x, test_y = trans(*Digits().load())
    assert train_x.shape == (1500, 64)
    assert train_y.shape == (1500, 10)
    assert test_x.shape == (297, 64)
    assert test_y.shape == (297, 10)


def test_chains_of_chains_keep_the_order():
    one, two, three, four = (Append(digit) for digit in range(1, 5))
    assert digits(one.add(two).add(three)) == 123
    assert digits(one.add(two).add(three.add(four))) == 1234
    assert digits(one.add(two.add(three))) == 123
    assert one.add(two).add(three.add(four)).steps == (one, two, three, four)


def test_add_changes_neither_of_the_two():
    one, chain = Append(1), Append(2).add(Append(3))
    one.add(chain)
    chain.add(one)
    assert digits(one) == 1
    assert digits(chain) == 23


def test_only_transforms_make_a_chain():
    with pytest.raises(TypeError, match=r"Chain 'steps' must be transforms \(AbsTransformer objects\), got 'Shuffle'"):
        transforms.Shuffle().add("Shuffle")
    with pytest.raises(TypeError, match=r"got <class .*ImageCls'>"):
        transforms.Shuffle().add(transforms.ImageCls)


def test_a_chain_is_described_step_by_step():
    chain = transforms.Shuffle().add(transforms.ImageCls(flatten=False))
    assert transforms.describe(chain) == [("Shuffle", {}), ("ImageCls", {"flatten": False, "channels": False})]


def test_what_is_not_built_in_cannot_be_data():
    class Shuffle(transforms.Shuffle):
        """Another class of a built-in name."""

    for other in (Append(1), Shuffle()):
        with pytest.raises(TypeError, match=r"only Shuffle, ImageCls, .* can be described as data, got a .*(Append|Shuffle)"):
            transforms.describe(transforms.ImageCls().add(other))
    with pytest.raises(ValueError, match=r"must be one of Shuffle, ImageCls, .*, got 'os\.system'"):
        transforms.build([("os.system", {})])
