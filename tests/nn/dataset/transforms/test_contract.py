"""What holds for every transform; a new kind needs a row in `ROWS`."""

import json

import numpy as np
import pytest

import nn.dataset.transforms as transforms
from nn.dataset.transforms import (
    AbsTransformer,
    Augment,
    Chain,
    Dirichlet,
    ImageCls,
    Make_Non_IID,
    Normalize,
    NormalizeLabels,
    OneHot,
    Shuffle,
    True_Non_IID,
    build,
    describe,
)
from tests.contract.kinds import public_kinds

ROWS = {
    Shuffle: lambda: Shuffle(),
    ImageCls: lambda: ImageCls(flatten=False),
    Chain: lambda: Chain([Shuffle(), ImageCls()]),
    Normalize: lambda: Normalize(std=[2.0, 3.0, 4.0]),
    NormalizeLabels: lambda: NormalizeLabels(mean=2.0),
    OneHot: lambda: OneHot(classes=5),
    Augment: lambda: Augment(crop=1, keep=False),
    Make_Non_IID: lambda: Make_Non_IID(batch_size=4, disorder=0.5),
    True_Non_IID: lambda: True_Non_IID(batch_size=4, disorder=0.5),
    Dirichlet: lambda: Dirichlet(0.5, blocks=2, block_size=2),
}


def samples():
    random = np.random.default_rng(2)
    return (
        random.integers(0, 256, (9, 4, 3), dtype=np.uint8),
        random.integers(0, 5, 9),
        random.integers(0, 256, (3, 4, 3), dtype=np.uint8),
        random.integers(0, 5, 3),
    )


def equal(left, right):
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.fixture(params=ROWS, ids=lambda kind: kind.__name__)
def transform(request):
    return ROWS[request.param]()


def test_every_kind_has_a_row_and_is_exported():
    kinds = public_kinds(AbsTransformer, transforms)
    assert kinds == set(ROWS)
    assert {kind.__name__ for kind in kinds} <= set(transforms.__all__)


def test_no_sample_is_lost(transform):
    arrays = transform(*samples())
    assert [len(array) for array in arrays] == [9, 9, 3, 3]


def test_arguments_stay_as_they_are(transform):
    given, again = samples(), samples()
    for array in given:
        array.flags.writeable = False
    transform(*given, seed=1)
    assert equal(given, again)


def test_the_result_depends_on_arguments_and_seed_only(transform):
    first = transform(*samples(), seed=3)
    transform(*samples(), seed=4)
    assert equal(transform(*samples(), seed=3), first)
    assert equal(transform(*samples()), transform(*samples(), seed=0))


def test_add_applies_one_after_the_other(transform):
    after = ImageCls()
    chained = transform.add(after)
    assert equal(chained(*samples(), seed=5), after(*transform(*samples(), seed=5), seed=5))
    before = Shuffle().add(transform)
    assert equal(before(*samples(), seed=5), transform(*Shuffle()(*samples(), seed=5), seed=5))


def test_the_configuration_builds_an_equal_transform(transform):
    again = type(transform)(**transform.get_config())
    assert equal(again(*samples(), seed=6), transform(*samples(), seed=6))
    assert repr(again) == repr(transform)
    if type(transform) is not Chain:
        assert json.loads(json.dumps(transform.get_config())) == transform.get_config()


def test_the_description_builds_an_equal_transform(transform):
    again = build(describe(transform))
    assert equal(again(*samples(), seed=6), transform(*samples(), seed=6))
    assert describe(again) == describe(transform)
