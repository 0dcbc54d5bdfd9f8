"""What holds for every data set, a new kind needs a row in `ROWS`; and where the samples of the small kinds come from."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import nn.dataset
from nn.dataset import (
    CIFAR10,
    CIFAR100,
    KMNIST,
    LEAF,
    MNIST,
    AbsDataset,
    ArrayDataset,
    BytePairs,
    CharacterText,
    ClientFolders,
    CSVDataset,
    Digits,
    FashionMNIST,
    ImageFolder,
    NpzDataset,
    SimData,
    SyntheticClients,
    TextFolder,
    TokenText,
    checksum_of,
)
from nn.dataset.interface import draw
from tests.contract.kinds import public_kinds

from .cifar_files import members
from .idx_files import put, small_mnist

PROVERB = "Übung macht den Meister, wie man so sagt, und es stimmt."
TEXT = "the cat sat on the mat; ça va, café? 漢字 🙂 the end of it all"
X, Y = np.arange(24, dtype=np.float32).reshape(8, 3), np.arange(8) % 3


def folders_of_clients(folder):
    for name, count in (("one", 3), ("two", 5)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        np.savez(folder / name / "a.npz", x=X[:count], y=Y[:count])
    return folder


def folders_of_users(folder):
    data = {name: {"x": X[:count].tolist(), "y": Y[:count].tolist()} for name, count in (("one", 3), ("two", 5))}
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part / "a.json").write_text(json.dumps({"users": list(data), "user_data": data}))
    return folder


def folders_of_files(folder, suffix):
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(4):
            path = folder / name / f"{number}{suffix}"
            np.save(path, np.full((2, 3), number, np.uint8)) if suffix == ".npy" else path.write_text(f"{name} {number}")
    return folder


ROWS = {
    ArrayDataset: lambda: ArrayDataset(np.ones((4, 2)), [0, 1, 1, 0], np.ones((1, 2)), [1]),
    Digits: lambda: Digits(),
    MNIST: lambda: MNIST(put(Path("mnist"), small_mnist())),
    FashionMNIST: lambda: FashionMNIST(put(Path("fashionmnist"), small_mnist())),
    KMNIST: lambda: KMNIST(put(Path("kmnist"), small_mnist())),
    CIFAR10: lambda: CIFAR10(put(Path("cifar10"), members(CIFAR10))),
    CIFAR100: lambda: CIFAR100(put(Path("cifar100"), members(CIFAR100)), labels="coarse"),
    SimData: lambda: SimData("classification", samples=9, features=2, noise=0.1, test_samples=3),
    CSVDataset: lambda: CSVDataset(put(Path(), {"table.csv": b"a,b,kind\n1,2,0\n3,4,1\n5,6,1\n"}) / "table.csv", label="kind"),
    NpzDataset: lambda: NpzDataset(Path("both.npz"), test_fraction=0.25),
    ClientFolders: lambda: ClientFolders(folders_of_clients(Path("clients"))),
    LEAF: lambda: LEAF(folders_of_users(Path("users"))),
    SyntheticClients: lambda: SyntheticClients(clients=2),
    ImageFolder: lambda: ImageFolder(folders_of_files(Path("images"), ".npy"), test_fraction=0.25),
    TextFolder: lambda: TextFolder(folders_of_files(Path("texts"), ".txt"), test_fraction=0.25),
    CharacterText: lambda: CharacterText(put(Path(), {"a.txt": PROVERB.encode()}) / "a.txt", length=4, stride=2),
    TokenText: lambda: TokenText(put(Path(), {"a.txt": PROVERB.encode()}) / "a.txt", BytePairs([[77, 97]]), length=4, stride=2),
}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Two .npz files and two texts in the current folder."""
    monkeypatch.chdir(tmp_path)
    np.savez("both.npz", x=X, y=Y, test_x=X[:2], test_y=Y[:2])
    np.savez("other.npz", x=X[:3], y=Y[:3], a=X[:4], b=Y[:4])
    put(tmp_path, {"text": TEXT.encode(), "zzz": b"zzz", "binary": b"abc\xff\xfe", "empty": b""})
    return tmp_path


def test_every_kind_has_a_row_and_is_exported():
    kinds = public_kinds(AbsDataset, nn.dataset)
    assert kinds == set(ROWS)
    assert {kind.__name__ for kind in kinds} <= set(nn.dataset.__all__)


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
def test_four_arrays_that_belong_together_a_checksum_a_name_and_a_configuration(kind):
    data = ROWS[kind]()
    arrays = train_x, train_y, test_x, test_y = data.load(download=False)
    assert len(train_x) == len(train_y) > 0
    assert len(test_x) == len(test_y) > 0
    assert (train_x.shape[1:], train_x.dtype) == (test_x.shape[1:], test_x.dtype)
    assert train_y.shape[1:] == test_y.shape[1:]
    assert all(np.array_equal(left, right) for left, right in zip(arrays, data.load(), strict=True))
    assert re.fullmatch("[0-9a-f]{64}", data.checksum())
    assert data.checksum() == checksum_of(arrays)
    assert re.fullmatch("[a-z0-9]+", data.name)
    config = data.get_config()
    if kind is ArrayDataset:  # its samples are its arguments
        assert config == {}
        return
    assert kind(**config).checksum() == data.checksum()
    assert kind(**config).get_config() == json.loads(json.dumps(config)) == config


def test_checksums_tell_apart_by_dtype_shape_values_and_order_and_by_nothing_else():
    a, loads = np.arange(6, dtype=np.int32), []
    variants = [
        *([], [a], [a, a], [a.reshape(2, 3)], [a.reshape(3, 2)], [a.astype(np.uint32)], [a.view(np.float32)], [a + 1]),
        *([a[:3], a[3:]], [a[3:], a[:3]], [a[:0], a]),
    ]
    assert len({checksum_of(variant) for variant in variants}) == len(variants)
    matrix = a.reshape(2, 3)
    for other in (np.asfortranarray(matrix), matrix.astype(">i4"), np.repeat(matrix, 2, axis=0)[::2]):
        assert checksum_of([other]) == checksum_of([matrix])
    assert checksum_of([np.array(True), np.zeros((0, 2))]) == checksum_of([np.array(True), np.zeros((0, 2))])

    class Counted(AbsDataset):
        def load(self, download=True):
            loads.append(download)
            return a, a, a, a

    data = Counted()
    assert data.checksum() == data.checksum() == checksum_of([a, a, a, a])
    assert len(loads) == 1
    assert data.name == "counted"


@pytest.mark.parametrize(("fraction", "count"), [(0.25, 5), (0.2, 4), (0.001, 1), (0.999, 19)])
def test_samples_set_aside_are_so_many_in_order_and_drawn_by_the_seed(fraction, count):
    labels = np.arange(20)
    train, test = draw(labels, fraction, seed=3)
    assert len(test) == count
    assert sorted([*train, *test]) == list(range(20))
    for rows in (train, test):
        assert np.all(np.diff(rows) > 0)
    parts = [tuple(draw(labels, 0.25, seed)[1]) for seed in (0, 0, 1, 2)]
    assert parts[0] == parts[1]
    assert len(set(parts)) == 3


def test_where_the_test_part_of_an_npz_file_comes_from(files, monkeypatch):
    for arguments, lengths in (
        ({"test_x": "test_x", "test_y": "test_y"}, [8, 8, 2, 2]),
        ({"test_path": "other.npz"}, [8, 8, 3, 3]),
        ({"test_path": "other.npz", "test_x": "a", "test_y": "b"}, [8, 8, 4, 4]),
        ({"test_fraction": 0.25}, [6, 6, 2, 2]),
    ):
        assert [len(array) for array in NpzDataset("both.npz", **arguments).load()] == lengths
    train_x, train_y, test_x, _ = NpzDataset("both.npz", seed=5).load()
    assert np.array_equal(np.sort(np.concatenate([train_x, test_x]), axis=0), X)
    assert np.array_equal(train_x[:, 0] / 3 % 3, train_y)
    monkeypatch.chdir("..")  # a relative path also counts from the data directory
    with pytest.raises(FileNotFoundError, match=r"NpzDataset finds no file 'both.npz'. Put it there, .* Searched: '/"):
        NpzDataset("both.npz").load()
    monkeypatch.setenv("PSGD_DATA", str(files))
    assert [len(array) for array in NpzDataset("both.npz").load()] == [6, 6, 2, 2]
    with pytest.raises(FileNotFoundError, match=f"Searched: '.*/nowhere.npz', '{files}/nowhere.npz'"):
        NpzDataset("nowhere.npz").load()
    Path("data").mkdir()
    Path("data/rows.csv").write_text("a,b\n1,2\n")
    told = r"finds no file 'C:\\\\Users\\\\me\\\\rows.csv'.* no letters; in WSL it is '/mnt/c/Users/me/rows.csv'$"
    with pytest.raises(FileNotFoundError, match=told):
        CSVDataset(r"C:\Users\me\rows.csv", "label").load()
    with pytest.raises(FileNotFoundError, match=r"finds no file 'data\\\\rows.csv'.*; did you mean 'data/rows.csv'\?$"):
        CSVDataset("data\\rows.csv", "b").load()


def test_the_labels_of_a_text_are_what_follows():
    def decode(ids):
        return "".join(data.vocabulary[each] for each in ids)

    data, border = CharacterText("text", length=5, test_fraction=0.25), len(TEXT) - round(len(TEXT) / 4)
    arrays = data.load()
    assert data.vocabulary == "".join(sorted(set(TEXT)))
    assert {array.dtype for array in arrays} == {np.dtype(np.int32)}
    for x, y, part in ((*arrays[:2], TEXT[:border]), (*arrays[2:], TEXT[border:])):
        assert len(x) == (len(part) - 1) // 5
        for row in range(len(x)):
            assert decode(x[row]) == part[5 * row : 5 * row + 5]
            assert decode(y[row]) == part[5 * row + 1 : 5 * row + 6]
    assert decode(data.encode("café 漢🙂")) == "café 漢🙂"
    assert data.encode("").shape == (0,)
    apart, close, far = (CharacterText("text", length=5, stride=stride).load() for stride in (5, 2, 10))
    assert len(close[0]) > 2 * len(apart[0])  # windows to train on may overlap
    assert np.array_equal(close[0][::5], far[0])
    assert all(np.array_equal(one, other) for one, other in zip(apart[2:], close[2:], strict=True))
    several = CharacterText(["text", "zzz"], length=5)
    assert several.text() == TEXT + "zzz"
    one = CharacterText("text", length=5)
    assert CharacterText(**several.get_config()).checksum() == several.checksum() != one.checksum()


def test_the_best_of_a_simulated_regression():
    data = SimData("regression", samples=50, features=3, noise=0.0, seed=4)
    arrays = data.load()
    assert [array.shape for array in arrays] == [(50, 3), (50, 1), (200, 3), (200, 1)]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    for x, y in (arrays[:2], arrays[2:]):
        np.testing.assert_allclose(x @ data.weights + data.bias, y, rtol=0, atol=1e-5)
    assert data.best == 0.0
    data = SimData("regression", samples=40_000, features=5, noise=0.5, seed=1)
    x, y, _, _ = data.load()
    assert data.best == 0.25
    assert np.mean((y - (x @ data.weights + data.bias)) ** 2) == pytest.approx(data.best, rel=0.03)
    fitted, *_ = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)
    np.testing.assert_allclose(fitted, np.r_[data.weights, data.bias[None]], rtol=0, atol=0.02)


@pytest.mark.parametrize(("classes", "noise"), [(2, 0.1), (5, 0.3), (3, 0.0)])
def test_the_best_of_a_simulated_classification(classes, noise):
    data = SimData("classification", samples=40_000, features=8, noise=noise, classes=classes, seed=2)
    x, y, _, test_y = data.load()
    assert y.dtype == test_y.dtype == np.int64
    assert set(y) == set(range(classes))
    guess = (x @ data.weights + data.bias).argmax(axis=1)
    assert data.best == 1 - noise
    assert np.mean(guess == y) == pytest.approx(data.best, abs=0.01)
    counts = np.bincount((y - guess)[guess != y] % classes, minlength=classes)[1:]
    assert np.all(np.abs(counts - counts.mean()) <= 5 * np.sqrt(counts.mean() + 1))


def test_the_seed_of_a_simulation_decides_and_its_size_does_not():
    first = SimData(seed=1)
    assert first.checksum() == SimData(seed=1).checksum() != SimData(seed=2).checksum()
    train_x, _, test_x, _ = first.load()
    assert not np.isin(test_x[:, 0], train_x[:, 0]).any()
    assert np.array_equal(SimData(samples=7, seed=1).weights, first.weights)
    with pytest.raises(ValueError, match="read-only"):
        first.weights[0] = 0


ARGUMENTS = [
    (SimData, {"kind": "ranking"}, "SimData 'kind' must be one of regression, classification, got 'ranking'"),
    (SimData, {"samples": 0}, "'samples' must be a positive integer, got 0"),
    (SimData, {"features": 0}, "'features' must be a positive integer, got 0"),
    (SimData, {"classes": 1}, "'classes' must be an integer of at least 2, got 1"),
    (SimData, {"noise": -0.1}, "'noise' must be a number >= 0, got -0.1"),
    (SimData, {"kind": "classification", "noise": 0.5}, "'noise' must be a number >= 0 and < 0.5, got 0.5"),
    (SimData, {"test_samples": 0}, "'test_samples' must be a positive integer, got 0"),
    (NpzDataset, {"test_x": "test_x"}, "'test_x' and 'test_y' must be given together, got 'test_x' and None"),
    (NpzDataset, {"x": 3}, "TypeError: .*'x' must be the name of an array, got 3"),
    (NpzDataset, {"test_x": 3}, "TypeError: .*'test_x' must be the name of an array, got 3"),
    (NpzDataset, {"test_fraction": 0}, "'test_fraction' must be a number > 0 and < 1, got 0"),
    (NpzDataset, {"seed": -1}, "'seed' must be an integer of at least 0, got -1"),
    (NpzDataset, {"y": "z"}, "has no array 'z', it has: x, y, test_x, test_y"),
    (NpzDataset, {"y": "test_y"}, r"'x' must hold samples and 'test_y' as many labels, got shapes \(8, 3\) and \(2,\)"),
    (NpzDataset, {"test_x": "y", "test_y": "y"}, r"must be alike, got float32 \(8, 3\) .* and int64 \(8,\)"),
    (CharacterText, {"path": []}, "'path' must name at least one file, got none"),
    (CharacterText, {"length": 0}, "'length' must be a positive integer, got 0"),
    (CharacterText, {"stride": 0}, "'stride' must be a positive integer, got 0"),
    (CharacterText, {"test_fraction": 1}, "'test_fraction' must be a number > 0 and < 1, got 1"),
    (CharacterText, {"path": "nowhere.txt"}, "FileNotFoundError: CharacterText finds no file 'nowhere.txt'"),
    (CharacterText, {"length": 60}, "with windows of 60 needs more characters than that to train on, got 5"),
    (CharacterText, {"length": 10}, "needs more characters than that to evaluate on, got 6; a smaller 'length' needs fewer"),
    (CharacterText, {"path": "binary"}, "binary' must be text in UTF-8: .* position 3"),
    (CharacterText, {"path": "empty"}, "needs more characters than that to train on, got 0"),
    (TokenText, {"path": 3}, "TypeError: TokenText 'path' must be a path or a list of paths, got 3"),
    (TokenText, {"tokens": 3}, "TypeError: BytePairs 'merges' must be a list of pairs of ids, got 3"),
    (TokenText, {"tokens": [[1, -2]]}, "BytePairs 'merges' must be an integer of at least 0, got -2"),
    (TokenText, {"path": "nowhere"}, "FileNotFoundError: TokenText finds no file 'nowhere'"),
    (TokenText, {"tokens": "nowhere"}, "FileNotFoundError: BytePairs finds no file 'nowhere'"),
    (TokenText, {"tokens": "text"}, "'text' holds no byte pairs: Expecting value"),
    (TokenText, {"tokens": [[1, 2, 3]]}, r"TypeError: BytePairs 'merges' must be pairs of ids, got \[1, 2, 3\]"),
    (TokenText, {"tokens": [[1, 256]]}, "BytePairs 'merges': token 256 must join tokens below 256, got 256"),
    (TokenText, {"tokens": [[1, 2], [1, 2]]}, r"BytePairs 'merges' must be different pairs, got \(1, 2\) twice"),
    (TokenText, {"length": 100}, "TokenText with windows of 100 needs more tokens than that to train on, got 61"),
]
PATHS = {
    TokenText: {"path": "text", "tokens": []},
    SimData: {},
    NpzDataset: {"path": "both.npz"},
    CharacterText: {"path": "text"},
}


@pytest.mark.parametrize(
    ("use", "text"),
    [
        *((lambda kind=kind, given=given: kind(**{**PATHS[kind], **given}).load(), text) for kind, given, text in ARGUMENTS),
        (lambda: CharacterText("text").encode("catZ"), r"CharacterText: 'Z' is no character of the files, which have ' ,;"),
        (lambda: CharacterText("empty").encode("a"), "'a' is no character of the files"),
        (lambda: draw(Y[:1], 0.5, 0), "must hold at least 2 samples to set some aside, got 1"),
        (lambda: checksum_of([np.array([object()])]), "TypeError: checksum_of needs arrays of numbers, got dtype object"),
    ],
)
def test_what_does_not_fit_is_named(use, text):
    with pytest.raises((TypeError, ValueError, FileNotFoundError)) as caught:
        use()
    assert re.search(text if "Error: " in text else f"ValueError: .*{text}", f"{caught.type.__name__}: {caught.value}")
