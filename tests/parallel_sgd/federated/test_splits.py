"""Who has what: splits, sizes, data sets that know their clients, and their description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset.transforms import ImageCls, Shuffle
from parallel_sgd import Clients, ParallelSGD, in_process
from parallel_sgd.federated import (
    DirichletSplit,
    FixedSampler,
    IIDSplit,
    LogNormalSizes,
    OwnSplit,
    PowerLawSizes,
    RowsSplit,
    ShardSplit,
    Sizes,
    Split,
    WeightedSampler,
    describe,
)
from parallel_sgd.federated.population import deal

LABELS = np.arange(1000) % 10


def shares(rows: Any) -> np.ndarray:
    return np.array([np.bincount(LABELS[each], minlength=10) for each in rows])


@pytest.mark.parametrize("split", [IIDSplit(), ShardSplit(3), DirichletSplit(0.1), DirichletSplit(100.0)], ids=repr)
@pytest.mark.parametrize("sizes", [None, LogNormalSizes(1.5, least=2), PowerLawSizes(1.1)], ids=repr)
def test_a_split_deals_all_samples_once_and_the_same_again(split: Split, sizes: Sizes | None) -> None:
    if sizes is not None and not split.takes_sizes:
        with pytest.raises(ValueError, match="'sizes' goes with IIDSplit and DirichletSplit; ShardSplit decides"):
            Clients(30, 5, split, sizes)
        return
    given = Clients(30, 5, split, sizes)
    rows = deal(given, LABELS, seed=4)
    assert sorted(np.concatenate(rows).tolist()) == list(range(1000))
    assert min(map(len, rows)) >= (1 if sizes is None else sizes.least)
    again, other = deal(given, LABELS, seed=4), deal(given, LABELS, seed=5)
    assert all(np.array_equal(a, b) for a, b in zip(rows, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(rows, other, strict=True))


def test_shards_have_few_classes_and_a_dirichlet_split_as_many_as_alpha_says() -> None:
    assert (shares(deal(Clients(50, 5, ShardSplit(2)), LABELS, 0)) > 0).sum(axis=1).max() <= 4
    few, many = (shares(deal(Clients(20, 5, DirichletSplit(alpha)), LABELS, 0)) for alpha in (0.05, 1000.0))
    assert (few > 0).sum(axis=1).mean() < 4 < 9.5 < (many > 0).sum(axis=1).mean()
    assert many.sum(axis=1).std() < 5 < few.sum(axis=1).std()
    given = Clients(20, 5, DirichletSplit(0.05), sizes=[40] * 10 + [10] * 10)
    dealt = shares(deal(given, LABELS, 0))
    assert dealt.sum(axis=1).tolist() == [40] * 10 + [10] * 10
    assert (dealt.max(axis=1) / dealt.sum(axis=1)).mean() > 0.7


def test_samples_go_to_clients_by_weight() -> None:
    sizes = np.array([0, 10, 1000, 10])
    counts = np.zeros(4)
    for number in range(200):
        counts[WeightedSampler(1).choose(sizes, number, np.random.default_rng(number))] += 1
    assert counts[0] == 0 and counts[2] > 180
    assert sorted(FixedSampler(4).choose(sizes, 0, np.random.default_rng(0)).tolist()) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="'weights' must be above 0 for 2 clients"):
        WeightedSampler(2, [1.0, 0.0])


def test_the_synthetic_data_of_fedprox_differs_more_between_clients_the_larger_alpha_and_beta() -> None:
    same, other = (nn.dataset.SyntheticClients(*numbers, iid=numbers == (0.0, 0.0)) for numbers in ((0.0, 0.0), (1.0, 1.0)))
    assert min(same.client_sizes) >= 45 and max(same.client_sizes) > 10 * np.median(same.client_sizes) / 3
    train_x, _, test_x, test_y = other.load()
    assert train_x.shape == (sum(other.client_sizes), 60) and train_x.dtype == np.float32 and len(test_x) == len(test_y) > 0
    spread = [
        np.std([each.mean() for each in np.split(data.load()[0], np.cumsum(data.client_sizes)[:-1])]) for data in (same, other)
    ]
    assert spread[0] < 0.1 < 0.5 < spread[1]
    # samples of a client do not depend on how many others there are
    fewer = nn.dataset.SyntheticClients(1.0, 1.0, clients=3)
    assert fewer.client_sizes == other.client_sizes[:3] and np.array_equal(fewer.load()[0], train_x[: len(fewer.load()[0])])


def leaf(folder: Path) -> Path:
    users = {"b": [[1.0, 2.0, 3.0, 4.0]] * 3, "a": [[0.0, 0.0, 0.0, 1.0]]}
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
        data = {user: {"x": x, "y": [1] * len(x)} for user, x in users.items() if part == "train" or user == "b"}
        content = {"users": list(data), "num_samples": [len(each["x"]) for each in data.values()], "user_data": data}
        (folder / part / "all.json").write_text(json.dumps(content))
    return folder


def test_files_of_leaf_and_folders_say_who_has_what(tmp_path: Path) -> None:
    data = nn.dataset.LEAF(leaf(tmp_path / "leaf"), shape=(2, 2))
    assert data.client_names == ("b", "a") and data.client_sizes == (3, 1)
    assert data.load()[0].shape == (4, 2, 2) and len(data.load()[2]) == 3
    rows = deal(Clients(2, 1).of_data(data), data.load()[1], 0)
    assert [each.tolist() for each in rows] == [[0, 1, 2], [3]]
    (tmp_path / "leaf" / "train" / "bad.json").write_text('{"users": ["c"], "user_data": {"c": {"x": ["text"], "y": [1]}}}')
    with pytest.raises(ValueError, match=r"bad.json must have the form of LEAF's files: ValueError: the samples of 'c'"):
        nn.dataset.LEAF(tmp_path / "leaf").load()
    for part in ("train", "test"):
        (tmp_path / "none" / part).mkdir(parents=True)
        (tmp_path / "none" / part / "all.json").write_text('{"users": [], "user_data": {}}')
    with pytest.raises(ValueError, match="must have a sample in train"):
        nn.dataset.LEAF(tmp_path / "none").load()
    for name, size in (("west", 10), ("east", 5)):
        (tmp_path / "own" / name).mkdir(parents=True)
        np.savez(tmp_path / "own" / name / "a.npz", x=np.ones((size, 3)), y=np.zeros(size))
    folders = nn.dataset.ClientFolders(tmp_path / "own")
    assert folders.client_names == ("east", "west") and folders.client_sizes == (4, 8) and len(folders.load()[2]) == 3


def test_a_data_set_that_knows_its_clients_is_trained_by_them(tmp_path: Path) -> None:
    data = nn.dataset.SyntheticClients(clients=12)
    made = nn.model.SequentialModel([-1, 60], [nn.layer.Dense(10)], seed=0)
    made.setup("crossentropy_with_softmax", "accuracy")
    options: dict[str, Any] = {"gd_type": "sgd", "gd_params": (0.01,), "block_size": 20, "epochs": 2, "verbose": 0}

    def train(clients: Any, **changes: Any) -> Any:
        with in_process(2) as nodes:
            return ParallelSGD(made, data, changes.pop("transform", None)).parallel(
                nodes, clients=clients, directory=tmp_path, **options
            )

    result = train("count=12,sample=4,prox=0.5")
    assert {(int(row["client"]), row["samples"]) for row in result.history.clients} <= set(enumerate(data.client_sizes))
    with pytest.raises(ValueError, match="'count' must be 12, the clients of SyntheticClients, got 10"):
        train(Clients(10, 4))
    with pytest.raises(ValueError, match="'transform' Shuffle mixes the samples of the clients"):
        train(Clients(12, 4), transform=Shuffle())
    with pytest.raises(ValueError, match="OwnSplit needs a data set that knows its clients, got Digits"):
        Clients(10, 4, OwnSplit()).of_data(nn.dataset.Digits())


@pytest.mark.long
def test_a_description_tells_and_draws_who_has_what(tmp_path: Path) -> None:
    given = Clients(20, 10, ShardSplit(2))
    found = describe(given, nn.dataset.Digits(), ImageCls(), seed=3)
    rows = deal(given, nn.dataset.Digits().load()[1], 3)
    assert found.sizes.tolist() == [len(each) for each in rows] and found.classes is not None
    assert found.classes.sum() == 1500 and (found.classes.sum(axis=1) == found.sizes).all()
    said = str(found)
    assert "20 clients with 1500 samples, dealt by ShardSplit(shards=2)" in said and "classes of a client: 1 to" in said
    assert "a round: 10 clients in 10 slots" in said
    assert found.to_frame().shape == (20, 11)
    pytest.importorskip("matplotlib")
    found.plot(tmp_path / "who.svg")
    assert (tmp_path / "who.svg").read_text().count("<path") > 200  # a bar for each client and class


def test_rows_of_a_program_are_told_by_their_hash_and_have_no_text() -> None:
    one, two = RowsSplit([[0, 1], [2]]), RowsSplit([[0], [1, 2]])
    assert repr(one) != repr(two) and repr(one) == repr(RowsSplit([np.array([0, 1]), [2]]))
    with pytest.raises(TypeError, match="'rows' must hold lists of sample numbers, got"):
        RowsSplit([[0.5]])
    with pytest.raises(ValueError, match="'rows' must hold a list for each of 3 clients, got 2"):
        deal(Clients(3, 1, one), LABELS, 0)
