"""Data sets of which the samples belong to clients, for federated learning."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.interface import AbsDataset, Arrays, check_fraction
from nn.dataset.npz import read_arrays
from nn.random import keyed

__all__ = ["LEAF", "ClientDataset", "ClientFolders", "SyntheticClients"]

_DIMENSIONS, _CLASSES = 60, 10  # of the published synthetic data
_LEAST: Final = 50  # samples of a client of the synthetic data
_MOST_BYTES: Final = 2 << 30
_MOST_NAMED: Final = 5

Pair = tuple[Array, Array]


class ClientDataset(AbsDataset):
    """Data set whose samples belong to clients: those of the first one stand first, then those of the second, and so on, and so
    do the test samples. A subclass defines `parts`.

    `parallel_sgd.Clients` without a `split` gives each client its own samples.

    >>> class Two(nn.dataset.ClientDataset):
    ...     def parts(self):
    ...         x, y = np.zeros((3, 4)), np.zeros(3, int)
    ...         return [("a", (x, y), (x[:1], y[:1])), ("b", (x[:2], y[:2]), (x[:1], y[:1]))]
    >>> Two().client_sizes, Two().client_test_sizes
    ((3, 2), (1, 1))
    """

    @abstractmethod
    def parts(self) -> list[tuple[str, Pair, Pair]]:
        """Return for each client its name, its samples to train on with their labels, and those to evaluate on with theirs. One
        without samples to train on is no client.
        """

    def load(self, download: bool = True) -> Arrays:
        # those of no client last, so that test samples stand in the order of the clients, too
        parts = sorted(self._parts, key=lambda part: not len(part[1][0]))
        trains, tests = [train for _, train, _ in parts], [test for _, _, test in parts]
        train_x, train_y, test_x, test_y = (
            np.concatenate([pair[place] for pair in pairs]) for pairs in (trains, tests) for place in (0, 1)
        )
        return train_x, train_y, test_x, test_y

    @property
    def client_sizes(self) -> tuple[int, ...]:
        """Number of training samples of each client."""
        return tuple(len(train[0]) for _, train, _ in self._parts if len(train[0]))

    @property
    def client_test_sizes(self) -> tuple[int, ...]:
        """Number of test samples of each client, which `parallel_sgd.Clients(test="own")` evaluates it on."""
        return tuple(len(test[0]) for _, train, test in self._parts if len(train[0]))

    @property
    def client_names(self) -> tuple[str, ...]:
        """Name of each client."""
        return tuple(name for name, train, _ in self._parts if len(train[0]))

    @cached_property
    def _parts(self) -> list[tuple[str, Pair, Pair]]:
        return self.parts()


class SyntheticClients(ClientDataset, configured=True):
    """Synthetic(alpha, beta) of FedProx: clients with models and inputs of their own, more different the larger both are.

    T. Li et al., "Federated optimization in heterogeneous networks", 2020, arXiv:1812.06127, and the program published with
    it: client k has 50 + floor(exp(4 + 2 z)) samples x ~ N(v_k, S) of 60 numbers with S = diag(j^-1.2), labels
    argmax(x W_k + b_k) of 10 classes, entries of W_k and b_k ~ N(u_k, 1) with u_k ~ N(0, alpha), v_k ~ N(B_k, 1) with
    B_k ~ N(0, beta); alpha and beta are standard deviations, as in that program. With `iid` all clients have one model, and
    v_k = B_k. A tenth of the samples of each client is to evaluate on. The numbers are drawn by a generator of this library, so
    they are not those of the published file.

    Samples are float32 ``(n, 60)``, labels int64 ``(n,)``.

    Args:
        alpha: deviation of the means of the models.
        beta: deviation of the means of the inputs.
        clients: number of clients.
        seed: seed of all draws.
        iid: whether all clients have the same model.

    >>> data = nn.dataset.SyntheticClients(1.0, 1.0, clients=30, seed=0)
    >>> len(data.client_sizes), min(data.client_sizes) >= 45
    (30, True)
    """

    def __init__(self, alpha: float = 1.0, beta: float = 1.0, clients: int = 30, seed: int = 0, iid: bool = False) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, 0)
        self.beta = arguments.number(self, "beta", beta, 0)
        self.clients = arguments.integer(self, "clients", clients, minimum=1)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.iid = arguments.flag(self, "iid", iid)

    def parts(self) -> list[tuple[str, Pair, Pair]]:
        spread = np.arange(1, _DIMENSIONS + 1) ** -0.6  # roots of the variances
        common = self._model(keyed(self.seed, "synthetic model"), 0.0)
        found = []
        for client in range(self.clients):
            random = keyed(self.seed, "synthetic", client)  # a client's samples do not depend on how many clients there are
            size = _LEAST + int(np.exp(4 + 2 * random.standard_normal()))
            mean, offset = self.alpha * random.standard_normal(), self.beta * random.standard_normal()
            center = np.full(_DIMENSIONS, offset) if self.iid else offset + random.standard_normal(_DIMENSIONS)
            weights, bias = common if self.iid else self._model(random, mean)
            x = center + spread * random.standard_normal((size, _DIMENSIONS))
            y = (x @ weights + bias).argmax(axis=1)
            train = size * 9 // 10
            x = x.astype(np.float32)
            found.append((f"client {client}", (x[:train], y[:train]), (x[train:], y[train:])))
        return found

    @staticmethod
    def _model(random: np.random.Generator, mean: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weights = mean + random.standard_normal((_DIMENSIONS, _CLASSES))
        return weights, mean + random.standard_normal(_CLASSES)


class LEAF(ClientDataset, configured=True):
    """Files of LEAF: a folder with ``train/*.json`` and ``test/*.json``, in which ``user_data`` has ``x`` and ``y`` by user.

    S. Caldas et al., "LEAF: a benchmark for federated settings", 2018, arXiv:1812.01097. Users come in the order of the files,
    by name, and of ``users`` in each. Samples are lists of numbers, float32; labels are class numbers, int64.

    Args:
        path: the folder; a relative path counts from the working directory, else from ``$PSGD_DATA``.
        shape: shape of a sample, such as ``(28, 28)``; by default that in the file.

    `load` raises FileNotFoundError where there are no files, ValueError for files of another form.

    >>> data = nn.dataset.LEAF("femnist", shape=(28, 28))
    """

    def __init__(self, path: str | os.PathLike[str], shape: Sequence[int] | None = None) -> None:
        self.path = arguments.path(self, "path", path, "a folder")
        self.shape = None if shape is None else arguments.shape(self, "shape", shape)

    def parts(self) -> list[tuple[str, Pair, Pair]]:
        folder = _found_folder(self.path, self)
        # an empty list has no shape of samples: users without samples are as those that are absent
        train, test = (
            {user: pair for user, pair in self._users(folder / part).items() if len(pair[0])} for part in ("train", "test")
        )
        if not train:
            raise ValueError(f"LEAF 'path' {self.path!r} must have a sample in train/*.json, got none")
        x, y = next(iter(train.values()))
        none = x[:0], y[:0]
        # users of test alone: in LEAF's split by user all are
        return [(name, train.get(name, none), test.get(name, none)) for name in dict.fromkeys([*train, *test])]

    def _users(self, folder: Path) -> dict[str, Pair]:
        found: dict[str, Pair] = {}
        files = sorted(folder.glob("*.json"))
        if not files:
            raise FileNotFoundError(f"LEAF 'path' {self.path!r} has no files {folder.name}/*.json")
        for file in files:
            if file.stat().st_size > _MOST_BYTES:
                raise ValueError(f"LEAF: {file} must have at most 2 GiB")
            try:
                content = json.loads(file.read_bytes())
                users, data = content["users"], content["user_data"]
                for user in users:
                    if user in found:
                        raise ValueError(f"the user {user!r} stands there twice")
                    found[str(user)] = self._pair(user, data[user])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                said = f"{type(error).__name__}: {error}"
                raise ValueError(f"LEAF: {file} must have the form of LEAF's files: {said}") from error
        return found

    def _pair(self, user: str, data: Any) -> Pair:
        try:
            x, y = np.asarray(data["x"], np.float32), np.asarray(data["y"])
        except ValueError as error:
            raise ValueError(f"the samples of {user!r} must be lists of numbers, {error}") from error
        if y.ndim != 1 or len(y) != len(x) or (y.size and (y.dtype.kind not in "iuf" or (y != np.rint(y)).any())):
            raise ValueError(f"the labels of {user!r} must be as many class numbers as samples, got {y.dtype} {y.shape}")
        return (x if self.shape is None else x.reshape(len(x), *self.shape)), y.astype(np.int64)


class ClientFolders(ClientDataset, configured=True):
    """Folder with a folder for each client, whose ``.npz`` files hold samples and labels.

    Clients come by name, and so do the files of each. A share of the samples of each client, drawn by `seed`, is to evaluate
    on.

    Args:
        path: the folder; a relative path counts from the working directory, else from ``$PSGD_DATA``.
        x: name of the array of samples in each file.
        y: that of the labels.
        test_fraction: the share that is set aside.
        seed: seed of the draw.

    `load` raises FileNotFoundError where there are no files, ValueError for damaged ones and arrays that do not belong
    together.

    >>> data = nn.dataset.ClientFolders("hospitals", test_fraction=0.1)
    """

    def __init__(
        self, path: str | os.PathLike[str], x: str = "x", y: str = "y", test_fraction: float = 0.2, seed: int = 0
    ) -> None:
        self.path = arguments.path(self, "path", path, "a folder")
        self.x, self.y = arguments.instance(self, "x", x, str), arguments.instance(self, "y", y, str)
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)

    def parts(self) -> list[tuple[str, Pair, Pair]]:
        folder = _found_folder(self.path, self)
        found = []
        for client, place in enumerate(sorted(each for each in folder.iterdir() if each.is_dir())):
            files = sorted(place.glob("*.npz"))
            if not files:
                raise FileNotFoundError(f"ClientFolders 'path' {self.path!r}: the folder {place.name!r} has no .npz files")
            pairs = [read_arrays(file, (self.x, self.y)) for file in files]
            try:
                x, y = (np.concatenate([pair[part] for pair in pairs]) for part in (0, 1))
            except ValueError as error:
                raise ValueError(f"ClientFolders: the files of {place.name!r} do not belong together: {error}") from error
            if len(x) != len(y):
                raise ValueError(
                    f"ClientFolders: {place.name!r} must have as many labels as samples, got {len(y)} for {len(x)}"
                )
            order = keyed(self.seed, "client folder", client).permutation(len(x))
            # A client without a sample to train on would be none.
            aside = min(round(self.test_fraction * len(x)), len(x) - 1)
            # Sorted, so that both parts keep the order of the files.
            train, test = np.sort(order[aside:]), np.sort(order[:aside])
            found.append((place.name, (x[train], y[train]), (x[test], y[test])))
        if not found:
            raise FileNotFoundError(f"ClientFolders 'path' {self.path!r} has no folder of a client")
        if len(shapes := {(train[0].shape[1:], train[1].shape[1:]) for _, train, _ in found}) > 1:
            raise ValueError(
                f"ClientFolders 'path' {self.path!r} must have samples of one shape, got {sorted(shapes)[:_MOST_NAMED]}"
            )
        return found


def _found_folder(path: str, owner: object) -> Path:
    """Return the folder at `path`, from the working directory, else from ``$PSGD_DATA``. Raises: FileNotFoundError."""
    root = os.environ.get("PSGD_DATA")
    places = [Path(path), *([Path(root, path)] if root and not Path(path).is_absolute() else [])]
    for place in places:
        if place.is_dir():
            return place
    searched = ", ".join(f"'{place.absolute()}'" for place in places)
    raise FileNotFoundError(f"{type(owner).__name__} finds no folder {path!r}. Searched: {searched}")
