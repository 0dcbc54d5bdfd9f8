"""Splits of the training set: which client has which samples."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array
from nn.dataset.transforms.labels import class_numbers
from nn.dataset.transforms.order import draw_classes
from nn.random import keyed

__all__ = ["DirichletSplit", "IIDSplit", "OwnSplit", "RowsSplit", "ShardSplit", "Split"]

Rows = NDArray[np.int64]
Counts = NDArray[np.int64]
_LEAST_ALPHA, _MOST_ALPHA = 1e-9, 1e9


class Split(Configurable):
    """Rule that deals the samples of a training set to clients, each sample to one client at most.

    It sees the labels as the transform of the job leaves them, and must deal the same on every node: all draws come from
    `random`. A subclass defines `deal`.

    >>> class Halves(Split):
    ...     def deal(self, labels, clients, sizes, random):
    ...         return np.array_split(np.arange(len(labels)), clients)
    >>> [len(rows) for rows in Halves().deal(np.zeros(5), 2, None, np.random.default_rng(0))]
    [3, 2]
    """

    takes_sizes: ClassVar[bool] = True
    """Whether `sizes` of `Clients` may be given beside it."""

    @abstractmethod
    def deal(self, labels: Array, clients: int, sizes: Counts | None, random: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client.

        Args:
            labels: of the training set, of shape (samples, ...).
            clients: number of clients.
            sizes: number of samples of each client, of shape (clients,), or None where the split decides on them.
            random: source of every draw.
        """


class IIDSplit(Split):
    """Samples dealt at random: every client sees the distribution of the whole training set.

    Without `sizes` all clients have equally many samples, but for the remainder of the division.

    >>> rows = IIDSplit().deal(np.zeros(10), 3, None, np.random.default_rng(0))
    >>> [len(each) for each in rows]
    [4, 3, 3]
    """

    def deal(self, labels: Array, clients: int, sizes: Counts | None, random: np.random.Generator) -> Sequence[Rows]:
        rows = random.permutation(len(labels))
        if sizes is None:
            return np.array_split(rows, clients)
        # behind the last client stand the samples that none gets
        return np.split(rows, np.cumsum(sizes))[:clients]


class ShardSplit(Split, configured=True):
    """Shards of samples in the order of their classes, of which each client gets some: with 2 shards it sees about two classes.

    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017. Shards have equally many
    samples, but for the remainder of the division.

    Args:
        shards: number of shards of each client.

    >>> rows = ShardSplit(1).deal(np.array([1, 0, 1, 0]), 2, None, np.random.default_rng(0))
    >>> sorted(np.sort(each).tolist() for each in rows)
    [[0, 2], [1, 3]]
    """

    takes_sizes: ClassVar[bool] = False

    def __init__(self, shards: int = 2) -> None:
        self.shards = arguments.integer(self, "shards", shards, minimum=1)

    def deal(self, labels: Array, clients: int, sizes: Counts | None, random: np.random.Generator) -> Sequence[Rows]:
        classes = class_numbers(self, labels)
        count = clients * self.shards
        if len(classes) < count:
            raise ValueError(
                f"ShardSplit 'shards' must leave a sample for each of {clients} x {self.shards} shards, got {len(classes)}"
            )
        shuffled = random.permutation(len(classes))  # samples of a class in no order of their own
        by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]  # stable: within a class the shuffled order stays
        shards = np.array_split(by_class, count)
        dealt = random.permutation(count).reshape(clients, self.shards)
        return [np.concatenate([shards[place] for place in places]) for places in dealt]


class DirichletSplit(Split, configured=True):
    """Classes dealt in shares of a Dirichlet distribution: with `alpha` towards 0 a client sees few classes, with a large one
    all see the same.

    Without `sizes` each class k is cut into shares p_k ~ Dirichlet(alpha, .., alpha) over the clients, so clients differ in
    their numbers of samples, too; those with fewer than `least` samples get some of the largest client (M. Yurochkin et al.,
    "Bayesian nonparametric federated learning of neural networks", 2019; Q. Li et al., "Federated learning on non-IID data
    silos", 2022). With `sizes` each client draws as many samples by a mixture of its own, q ~ Dirichlet(alpha C p), where p
    are the shares of the C classes in the training set (T.-M. H. Hsu et al., 2019, arXiv:1909.06335).

    Args:
        alpha: concentration for each class.
        least: samples that each client has at least.

    >>> labels = np.arange(300) % 3
    >>> rows = DirichletSplit(0.5).deal(labels, 10, None, np.random.default_rng(0))
    >>> sum(len(each) for each in rows), min(len(each) for each in rows) >= 1
    (300, True)
    """

    def __init__(self, alpha: float, least: int = 1) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, _LEAST_ALPHA, _MOST_ALPHA)
        self.least = arguments.integer(self, "least", least, minimum=1)

    def deal(self, labels: Array, clients: int, sizes: Counts | None, random: np.random.Generator) -> Sequence[Rows]:
        _, classes = np.unique(class_numbers(self, labels), return_inverse=True)
        shuffled = random.permutation(len(classes))
        by_class = [shuffled[classes[shuffled] == number] for number in range(int(classes.max()) + 1)]
        if sizes is not None:
            return self._by_client(by_class, sizes, random)
        if len(classes) < clients * self.least:
            raise ValueError(
                f"DirichletSplit 'least' must leave enough samples for {clients} clients, got {self.least} of {len(classes)}"
            )
        pieces: list[list[Rows]] = [[] for _ in range(clients)]
        for rows in by_class:
            # gammas in place of `random.dirichlet`, of which all may be 0 for a small alpha
            shares = random.standard_gamma(self.alpha, clients)
            if not shares.sum() > 0:
                shares[int(random.integers(clients))] = 1.0
            # whole samples: the last client takes what rounding leaves
            ends = np.floor(np.cumsum(shares / shares.sum())[:-1] * len(rows)).astype(np.int64)
            for piece, part in zip(pieces, np.split(rows, ends), strict=True):
                piece.append(part)
        return _levelled([np.concatenate(piece) for piece in pieces], self.least, random)

    def _by_client(self, by_class: list[Rows], sizes: Counts, random: np.random.Generator) -> list[Rows]:
        left = np.array([len(rows) for rows in by_class])
        weights = self.alpha * len(left) * left / left.sum()
        found = []
        for size in sizes:
            counts = draw_classes(weights, left, int(size), random)
            # from the end, so that the rest of a class is its beginning
            found.append(np.concatenate([rows[n - k : n] for rows, n, k in zip(by_class, left, counts, strict=True)]))
            left = left - counts
        return found


class OwnSplit(Split):
    """Split of a data set that knows its clients: a `nn.dataset.ClientDataset`, or one with `client_sizes`. Such a data set has
    it where no `split` is given.

    >>> rows = OwnSplit().deal(np.zeros(5), 2, np.array([3, 2]), np.random.default_rng(0))
    >>> [each.tolist() for each in rows]
    [[0, 1, 2], [3, 4]]
    """

    takes_sizes: ClassVar[bool] = False

    def deal(self, labels: Array, clients: int, sizes: Counts | None, random: np.random.Generator) -> Sequence[Rows]:
        if sizes is None:
            raise ValueError("OwnSplit needs a data set that knows its clients, such as nn.dataset.LEAF")
        if sizes.sum() != len(labels):
            raise ValueError(
                f"OwnSplit needs the {sizes.sum()} samples of the data set in their order, got {len(labels)} after the "
                f"transform"
            )
        return np.split(np.arange(len(labels)), np.cumsum(sizes))[:clients]


class RowsSplit(Split):
    """Rows that a program has dealt itself.

    Args:
        rows: numbers of the samples of each client, as the transform of the job leaves them; no sample twice.

    >>> RowsSplit([[0, 1], [2]])
    RowsSplit(2 clients, 3 samples, b766a842)
    """

    takes_sizes: ClassVar[bool] = False

    def __init__(self, rows: Sequence[Sequence[int] | Rows]) -> None:
        if not arguments.is_list(rows):
            raise TypeError(f"RowsSplit 'rows' must hold lists of sample numbers, got {rows!r:.80}")
        found = []
        for place, given in enumerate(rows):
            try:
                each = np.asarray(given)
            except ValueError:  # lists of several lengths
                each = np.empty((0, 0))
            if each.ndim != 1 or (each.size and each.dtype.kind not in "iu"):
                raise TypeError(f"RowsSplit 'rows' must hold lists of sample numbers, got {given!r:.80} for client {place}")
            found.append(each.astype(np.int64))
        self.rows = tuple(found)

    def deal(self, labels: Array, clients: int, sizes: Counts | None, random: np.random.Generator) -> Sequence[Rows]:
        if len(self.rows) != clients:
            raise ValueError(f"RowsSplit 'rows' must hold a list for each of {clients} clients, got {len(self.rows)}")
        return self.rows

    def __repr__(self) -> str:
        # -1 ends each client: the same rows dealt otherwise have another hash
        numbers = np.concatenate([np.append(each, -1) for each in self.rows]) if self.rows else np.empty(0, np.int64)
        digest = hashlib.sha256(numbers.astype("<i8").tobytes()).hexdigest()[:8]
        return f"RowsSplit({len(self.rows)} clients, {sum(map(len, self.rows))} samples, {digest})"


def _levelled(rows: list[Rows], least: int, random: np.random.Generator) -> list[Rows]:
    """Give clients that have fewer than `least` samples some of those that have most."""
    sizes = [len(each) for each in rows]
    for client in range(len(rows)):
        while sizes[client] < least:
            giver = int(np.argmax(sizes))  # the first of equal ones
            place = int(random.integers(sizes[giver]))
            rows[client] = np.append(rows[client], rows[giver][place])
            rows[giver] = np.delete(rows[giver], place)
            sizes[client] += 1
            sizes[giver] -= 1
    return rows


def check_rows(split: Split, rows: Sequence[Rows], clients: int, samples: int) -> None:
    """Check that a split has dealt rows of the training set, none twice.

    Args:
        split: the split, for messages.
        rows: those of each client.
        clients: number of clients.
        samples: number of samples.

    Raises: ValueError naming the split and the fault.
    """
    name = type(split).__name__
    if len(rows) != clients:
        raise ValueError(f"Clients 'split' {name} must deal to {clients} clients, got rows for {len(rows)}")
    every = np.concatenate(rows)
    if every.size and not 0 <= every.min() <= every.max() < samples:
        raise ValueError(f"Clients 'split' {name} must deal rows from 0 to {samples - 1}, got {every.min()} to {every.max()}")
    counts = np.bincount(every, minlength=1)  # without a minimum, no rows would have no largest count
    if counts.max() > 1:
        raise ValueError(
            f"Clients 'split' {name} must deal each sample once, got row {int(counts.argmax())} {counts.max()} times"
        )


def hold_out(share: float, rows: Sequence[Rows], seed: int) -> tuple[list[Rows], list[Rows]]:
    """Return the rows with which each client trains, in their order, and those that are held out.

    Of n samples round(share n) are drawn, so they are of the client's own classes; of two and more at least one, and at least
    one stays. A client with one sample trains with it.

    Args:
        share: that which is held out; of 0 there are no rows at all.
        rows: those that a split has dealt to each client.
        seed: that of the job.
    """
    if not share:
        return list(rows), []
    kept, held = [], []
    for client, own in enumerate(rows):
        # at least one sample is held out, and one stays to train with
        count = min(max(round(share * len(own)), 1), len(own) - 1) if len(own) > 1 else 0
        drawn = np.zeros(len(own), bool)
        drawn[keyed(seed, "held out", client).permutation(len(own))[:count]] = True
        kept.append(own[~drawn])
        held.append(own[drawn])
    return kept, held
