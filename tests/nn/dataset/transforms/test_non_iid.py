"""What each worker sees after Make_Non_IID, True_Non_IID and Dirichlet, by the arithmetic that deals blocks in training."""

import re
from itertools import pairwise

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from nn.dataset.transforms import Dirichlet, ImageCls, Make_Non_IID, Shuffle, True_Non_IID
from nn.gradient_descent import SGDOptimizer
from nn.layer import Dense
from nn.loss import Cross_Entropy_With_Softmax
from nn.model import SequentialModel
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.codec import DummyCodec
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment

from ....statements import covers

SIZE = 8
SAMPLES, CLASSES = 1003, 10
ASSIGNMENTS = [IIDBlockAssignment(4), IIDBlockAssignment(4, 2), DuplicateAssignment(4, 2), FixedBlockAssignment(3, 1, 6)]


def samples(count=SAMPLES, seed=0):
    """Return samples that are their own numbers, with random labels."""
    labels = np.random.default_rng(seed).integers(0, CLASSES, count)
    return np.arange(count)[:, None], labels, np.arange(3)[:, None], np.arange(3)


def seen(x, assignment, size=SIZE):
    """Return the numbers of the samples that each worker computes in whole batches, ``(batches, its blocks * size)``."""
    whole = len(x) // (size * assignment.block_count)
    dealt = x[: whole * size * assignment.block_count, 0].reshape(whole, assignment.block_count, size)
    return [dealt[:, list(blocks)].reshape(whole, -1) for blocks in assignment.node_2_block]


def transforms(blocks, **more):
    return [
        Make_Non_IID(blocks * SIZE, **more),
        True_Non_IID(blocks * SIZE, **more),
        *([] if more else [Dirichlet(0.3, blocks, SIZE)]),
    ]


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=lambda given: f"{type(given).__name__}{given.node_2_block}")
def test_every_sample_is_kept_with_its_label_and_the_tail_stays(kind, assignment):
    given = samples()
    transform = transforms(assignment.block_count)[kind]
    x, y, test_x, test_y = transform(*given, seed=1)
    assert sorted(x[:, 0]) == list(range(SAMPLES))
    assert np.array_equal(y, given[1][x[:, 0]])
    used = SAMPLES - SAMPLES % (SIZE * assignment.block_count)
    assert x[used:, 0].tolist() == list(range(used, SAMPLES))
    assert test_x is given[2]
    assert test_y is given[3]


@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=lambda given: f"{type(given).__name__}{given.node_2_block}")
def test_true_non_iid_gives_each_block_its_part_of_the_sorted_set(assignment):
    given = samples()
    blocks = assignment.block_count
    x, *_ = True_Non_IID(blocks * SIZE)(*given)
    used = SAMPLES - SAMPLES % (SIZE * blocks)
    parts = np.split(np.argsort(given[1][:used], kind="stable"), blocks)
    for worker, numbers in enumerate(seen(x, assignment)):
        expected = [parts[block] for block in assignment.node_2_block[worker]]
        assert sorted(numbers.reshape(-1)) == sorted(np.concatenate(expected))
    if assignment.redundancy == 1:
        ranges = [given[1][numbers] for numbers in seen(x, assignment)]
        assert all(left.max() <= right.min() for left, right in pairwise(ranges))


def test_true_non_iid_serves_any_number_of_blocks_that_divides_the_batch():
    given = samples(960)
    x, *_ = True_Non_IID(48)(*given)
    for workers in (1, 2, 3, 4, 6, 12):
        parts = np.split(np.argsort(given[1], kind="stable"), workers)
        for part, numbers in zip(parts, seen(x, IIDBlockAssignment(workers), 48 // workers), strict=True):
            assert sorted(numbers.reshape(-1)) == sorted(part)


def test_true_non_iid_keeps_whole_batches_balanced():
    labels = np.arange(1000) % CLASSES
    _, y, _, _ = True_Non_IID(50)(labels[:, None], labels, labels[:1], labels[:1])
    for batch in y.reshape(-1, 50):
        assert np.bincount(batch).tolist() == [5] * CLASSES
    for worker in range(5):
        assert set(y.reshape(-1, 50)[:, worker * 10 : (worker + 1) * 10].reshape(-1)) == {2 * worker, 2 * worker + 1}


def test_make_non_iid_sorts_within_each_batch_and_keeps_it():
    given = samples()
    x, y, _, _ = Make_Non_IID(4 * SIZE)(*given)
    for start in range(0, SAMPLES // 32 * 32, 32):
        batch = slice(start, start + 32)
        assert np.array_equal(x[batch, 0], start + np.argsort(given[1][batch], kind="stable"))
    workers = [given[1][numbers] for numbers in seen(x, IIDBlockAssignment(4))]
    for left, right in pairwise(workers):
        assert np.all(left.max(axis=1) <= right.min(axis=1))
        assert left.mean() + 1 < right.mean()
    assert np.all(np.diff(y[:992].reshape(-1, 32)) >= 0)


@pytest.mark.parametrize("kind", [Make_Non_IID, True_Non_IID])
def test_disorder_goes_from_sorted_to_iid(kind):
    """The mean label of four workers: 1, 3.5, 6, 8.5 and so on when sorted, 4.5 for all in the end."""
    given = samples(8000)
    spreads = []
    for disorder in (0.0, 0.25, 0.5, 1.0):
        x, *_ = kind(400, disorder)(*given, seed=3)
        means = [given[1][numbers].mean() for numbers in seen(x, IIDBlockAssignment(4), 100)]
        spreads.append(means[-1] - means[0])
    assert spreads[0] > 6
    assert spreads[1] == pytest.approx(0.75 * spreads[0], rel=0.05)
    assert spreads[2] == pytest.approx(0.5 * spreads[0], rel=0.05)
    assert abs(spreads[3]) < 0.4


def test_disorder_moves_no_more_than_its_share():
    x, y, *more = samples(640)
    for kind in (Make_Non_IID, True_Non_IID):
        plain, mixed = kind(64)(x, y, *more)[0], kind(64, 0.25)(x, y, *more, seed=2)[0]
        assert 0 < np.count_nonzero(plain != mixed) <= 160
        assert np.array_equal(kind(64, 0.001)(x, y, *more)[0], plain)


@pytest.mark.parametrize("kind", range(3))
def test_labels_of_every_form(kind):
    x, y, test_x, test_y = samples(320)
    transform = transforms(4)[kind]
    expected = transform(x, y, test_x, test_y)[0]
    for labels in (y[:, None], np.eye(CLASSES)[y], np.eye(CLASSES, dtype=np.uint8)[y], y.astype(np.float32)):
        assert np.array_equal(transform(x, labels, test_x, labels[:3])[0], expected)


def test_values_to_predict_are_sorted_by_size():
    values = np.random.default_rng(1).normal(size=(320, 1))
    x = np.arange(320)[:, None]
    y = True_Non_IID(32)(x, values, x, values)[1].reshape(10, 4, 8)
    assert all(y[:, block].max() < y[:, block + 1].min() for block in range(3))


def class_shares(alpha, seed, blocks=8, count=16_000):
    x, y, *more = samples(count)
    x, *_ = Dirichlet(alpha, blocks, 10)(x, y, *more, seed=seed)
    counts = [np.bincount(y[numbers.reshape(-1)], minlength=CLASSES) for numbers in seen(x, IIDBlockAssignment(blocks), 10)]
    return np.array(counts) / (count / blocks)


def test_dirichlet_shares_follow_alpha():
    """The first block takes from a full stock, so its shares are Dirichlet(alpha p): mean p, variance p (1 - p) / (alpha + 1).

    The whole set is the prior p in counts of 10 classes, so alpha here is the concentration of all classes together.
    """
    alpha = 20.0
    first = np.array([class_shares(alpha, seed, count=8000)[0] for seed in range(120)])
    assert first.mean(axis=0) == pytest.approx(np.full(CLASSES, 0.1), abs=0.02)
    assert first.var() == pytest.approx(0.1 * 0.9 / (alpha + 1), rel=0.15)


def test_dirichlet_between_one_class_and_all():
    assert np.abs(class_shares(1e8, 0) - 0.1).max() < 0.06
    for alpha in (1e-3, 1e-9):  # a block needs 2,000 samples and a class has 1,600: two classes, then what is left
        narrow = class_shares(alpha, 0)
        assert narrow.sum(axis=1) == pytest.approx(np.ones(8))
        assert (narrow[:3] > 0).sum(axis=1).tolist() == [2, 2, 2]
        assert (narrow > 0).sum(axis=1).max() <= 5


def test_dirichlet_with_redundancy_mixes_the_parts_of_the_blocks_a_worker_holds():
    assignment = IIDBlockAssignment(4, 2)
    given = samples(1200)
    x, *_ = Dirichlet(0.1, assignment.block_count, 10)(*given, seed=1)
    single = seen(x, IIDBlockAssignment(6), 10)
    for worker, numbers in enumerate(seen(x, assignment, 10)):
        own = np.concatenate([single[block].reshape(-1) for block in assignment.node_2_block[worker]])
        assert sorted(numbers.reshape(-1)) == sorted(own)


def test_order_in_a_part_is_random_so_that_its_batches_are_alike():
    x, y, *more = samples(8000)
    x, *_ = Dirichlet(5.0, 4, 50)(x, y, *more)
    for numbers in seen(x, IIDBlockAssignment(4), 50):
        half = len(numbers) // 2
        early, late = (np.bincount(y[part].reshape(-1), minlength=CLASSES) for part in (numbers[:half], numbers[half:]))
        assert np.abs(early - late).max() < 80


def test_they_say_that_samples_belong_to_blocks():
    """So that a job leaves them there when it gives every epoch an order of its own; others say nothing of the kind."""
    for transform in transforms(4):
        assert transform.deals_blocks and Shuffle().add(transform).deals_blocks
    assert not Shuffle().deals_blocks and not Shuffle().add(ImageCls()).deals_blocks
    data, chain = samples(400), Shuffle().add(True_Non_IID(4 * 25))  # behind it equal labels come in random order
    assert not np.array_equal(chain(*data, seed=1)[0], chain(*data, seed=2)[0])


def dealt(transform, labels, count=8):
    return transform(np.ones((count, 1)), labels, np.ones((1, 1)), np.ones(1))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: Make_Non_IID(0), "ValueError: Make_Non_IID 'batch_size' must be a positive integer, got 0"),
        (lambda: True_Non_IID(1.5), "TypeError: True_Non_IID 'batch_size' must be a positive integer, got 1.5"),
        (lambda: Make_Non_IID(8, 1.5), "ValueError: Make_Non_IID 'disorder' must be a number from 0 to 1, got 1.5"),
        (lambda: True_Non_IID(8, -0.1), "ValueError: True_Non_IID 'disorder' must be a number >= 0, got -0.1"),
        (lambda: Dirichlet(0, 4), r"ValueError: Dirichlet 'alpha' must be a number >= 1e-09 and < 1e\+09, got 0"),
        (lambda: Dirichlet(1, 0), "ValueError: Dirichlet 'blocks' must be a positive integer, got 0"),
        (lambda: Dirichlet(1, 1, 0), "ValueError: Dirichlet 'block_size' must be a positive integer, got 0"),
        (lambda: True_Non_IID(1004)(*samples()), "ValueError: .*needs at least one batch of 1004 samples, got 1003"),
        (lambda: Dirichlet(1, 4, 300)(*samples()), "ValueError: Dirichlet needs at least one batch of 1200 samples, got 1003"),
        (lambda: dealt(Make_Non_IID(8), np.ones(8), 9), "Make_Non_IID needs one label per sample, got 9 samples and 8 labels"),
        (lambda: dealt(True_Non_IID(8), np.ones((8, 2, 2))),
         r"ValueError: True_Non_IID needs labels of shape \(n,\), \(n, 1\) or \(n, classes\), got float64 \(8, 2, 2\)"),
        (lambda: dealt(True_Non_IID(8), np.full(8, np.nan)), "ValueError: True_Non_IID needs labels that are numbers, got NaN"),
        (lambda: dealt(Dirichlet(1.0, 4, 2), np.linspace(0.5, 0.9, 8)),
         r"ValueError: Dirichlet needs labels that are class numbers, got -?\d\.\d+"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(use, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        use()
    assert re.search(text if "Error: " in text else f"ValueError: .*{text}", f"{caught.type.__name__}: {caught.value}")


@covers("SUB-45")
@pytest.mark.parametrize("kind", range(3))
def test_a_job_leaves_every_sample_in_its_block(kind, tmp_path):
    """What each worker sees in an epoch, it sees in the next one in another order."""
    x, y, *_ = samples(33)
    x = np.eye(33, dtype=np.float32)[x[:, 0]]
    data, transform = ArrayDataset(x, y, x[:3], y[:3]), [Make_Non_IID(8), True_Non_IID(8), Dirichlet(0.3, 2, 4)][kind]
    model = SequentialModel(input_shape=[-1, 33])
    model.add(Dense(CLASSES))
    model.setup(Cross_Entropy_With_Softmax())
    firsts = []
    for epochs in (1, 2):
        with in_process(2) as nodes:
            result = ParallelSGD(model, data, transform).parallel(
                nodes, block_size=4, epoch=epochs, codec=DummyCodec, gd_type=SGDOptimizer, directory=tmp_path
            )
        dealt, *_ = transform(*data.load())
        numbers = dealt.argmax(1)[:32].reshape(4, 2, 4)
        for node, trained in result.models.items():
            moved = (trained.store.values[: 33 * CLASSES] != model.store.values[: 33 * CLASSES]).reshape(33, CLASSES)
            assert set(np.flatnonzero(moved.any(axis=1))) >= set(numbers[:, node].reshape(-1)), "all of its part"
            assert not moved.any(axis=1)[numbers[:, 1 - node].reshape(-1)].any(), "and nothing of the other one's"
        firsts.append(result.models[0].store.values.tobytes())
    assert len(set(firsts)) == 2
