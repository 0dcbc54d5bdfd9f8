"""Population of clients as the nodes of a job see it: samples of each client, and the slots of each round."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.transforms.labels import class_numbers
from nn.random import keyed
from parallel_sgd.engine.block_tree import Span, halves

from .availability import Availability
from .clients import OWN, Clients
from .returned import whole_numbers
from .rounds import Course, Field, Visit, courses
from .samplers import BufferedSampler
from .sizes import Sizes
from .splits import OwnSplit, check_rows, hold_out

Rows = NDArray[np.int64]
Counts = NDArray[np.int64]
_ROUNDS_AT_HAND: Final = 16
_MOST_CLASSES: Final = 100


class Round(NamedTuple):
    """Round of a job.

    Args:
        number: from 0.
        slots: the client of each block, None for a block without one.
        factors: of the change of each block, so that the mean over all blocks is the weighed mean over the clients.
        shares: the same for statistics such as those of BatchNorm, which are weighed by samples or alike, never by steps.
        visits: the client of each block with its times, None for a block without one.
        course: times and counts of the round.
    """

    number: int
    slots: tuple[int | None, ...]
    factors: tuple[float, ...]
    shares: tuple[float, ...]
    visits: tuple[Visit | None, ...]
    course: Course


class Population:
    """Clients with the number of samples of each, and the seed that keys every draw.

    Args:
        clients: the option of the job.
        sizes: samples of each client.
        seed: that of the job.
        block_size: samples of a client's step.
    """

    def __init__(self, clients: Clients, sizes: Sequence[int] | Counts, seed: int, block_size: int) -> None:
        self.clients, self.seed = clients, seed
        self.sizes = np.asarray(sizes, np.int64)
        self._steps = -(-self.sizes // block_size)  # of a pass
        seconds, times, clock = np.zeros(clients.count), Availability(None, None), clients.clock
        if clock is not None:
            samples = clients.epochs * self.sizes
            seconds = clock.seconds(clients.count, seed, samples, clients.bytes_up, clients.bytes_down)
            times = clock.times
        self._field = Field(clients.sample, self.sizes, seed, seconds, times)
        self._going: Iterator[Course] | None = None
        self._course: Course | None = None

    def course(self, number: int) -> Course:
        """Return the course of a round; rounds are best asked for in order, since each begins when the one before has ended.

        Args:
            number: that of the round, from 0.

        Raises: ValueError for a choice that a sampler must not make, and where no client comes any more.
        """
        # courses only go forwards: an earlier round is counted anew from the first
        if self._course is None or self._going is None or number < self._course.number:
            self._going = courses(self._field)
            self._course = next(self._going)
        while self._course.number < number:
            self._course = next(self._going)
        return self._course

    def chosen(self, number: int) -> list[int]:
        """Return the clients of a round with changes that count, in order.

        Args:
            number: that of the round, from 0.

        Raises: ValueError for a choice that a sampler must not make.
        """
        clients = self.clients
        found = [visit.client for visit in self.course(number).visits]
        if len(found) > clients.slots:
            raise ValueError(
                f"{type(clients.sample).__name__} has room for {clients.slots} clients in a round, and round {number + 1} has "
                f"{len(found)}: give it more slots, or another seed"
            )
        return found

    def round(self, number: int) -> Round:
        """Return a round: which client has which slot, and with which weight.

        Args:
            number: that of the round, from 0.
        """
        chosen = self.chosen(number)
        course = self.course(number)
        slots = fill_slots(chosen, self.sizes, self.clients.slots)
        by_client = {visit.client: visit for visit in course.visits}
        visits = tuple([None if client is None else by_client[client] for client in slots])
        weights = np.array([0.0 if each is None else self._weight(each) for each in slots])
        # a round without clients has no weight at all
        total = weights.sum() or 1.0
        # the merge is a mean over slots, so shares are 1 on average
        shares = weights * len(slots) / total
        factors = shares
        if self.clients.weigh == "steps":
            steps = np.array([1 if each is None else self.steps(each.client, each.key) for each in visits])
            # FedNova: the mean number of steps times the mean of changes per step
            factors = shares * (float(weights @ steps) / total) / steps
        sampler = self.clients.sample
        if isinstance(sampler, BufferedSampler):
            damped = np.array([0.0 if each is None else sampler.weight(number - each.version) for each in visits])
            factors, shares = factors * damped, shares * damped
        return Round(number, slots, tuple(factors.tolist()), tuple(shares.tolist()), visits, course)

    def _weight(self, client: int) -> float:
        return 1.0 if self.clients.weigh == "equal" else float(self.sizes[client])

    def passes(self, client: int, number: int) -> int:
        """Return the number of passes of a client over its samples in a round.

        Args:
            client: its number.
            number: that keys the draws of its visit.
        """
        clients = self.clients
        if not clients.stragglers:
            return clients.epochs
        random = keyed(self.seed, "passes", number, client)
        return int(random.integers(1, clients.epochs + 1)) if random.random() < clients.stragglers else clients.epochs

    def steps(self, client: int, number: int) -> int:
        """Return the number of steps of a client in a round.

        Args:
            client: its number.
            number: that keys the draws of its visit.
        """
        return self.passes(client, number) * int(self._steps[client])

    def order(self, number: int, client: int, epoch: int) -> Rows:
        """Return the order of a client's samples in one of its passes, as places in its rows.

        Args:
            number: that keys the draws of its visit.
            client: number of the client.
            epoch: that of the pass, from 0.
        """
        return keyed(self.seed, "client", number, client, epoch).permutation(int(self.sizes[client]))


def steps_of_slots(clients: Clients, seed: int, block_size: int) -> Callable[[int, int], Sequence[int]]:
    """Return a function from epoch and batch to the steps of the client of each slot, 0 for a slot without one.

    Args:
        clients: the option of the job, which knows the samples of each client.
        seed: that of the job.
        block_size: samples of a client's step.
    """
    population = Population(clients, clients.known or (), seed, block_size)

    # of a few rounds: workers are not in the same one at all times
    @lru_cache(maxsize=_ROUNDS_AT_HAND)
    def steps(epoch: int, batch: int) -> Sequence[int]:
        now = population.round(epoch * clients.rounds + batch)
        return [0 if visit is None else population.steps(visit.client, visit.key) for visit in now.visits]

    return steps


def fill_slots(chosen: Sequence[int], sizes: Counts, slots: int) -> tuple[int | None, ...]:
    """Deal clients to slots along the merge tree: the largest first, each into the half that has less work and still has room.

    Workers hold contiguous ranges of slots, whole subtrees where that is possible; so their work is nearly even without any
    slot being dealt to a worker.

    Args:
        chosen: the clients of a round.
        sizes: samples of each client.
        slots: number of slots, at least that of the clients.
    """
    found: list[int | None] = [None] * slots
    # by number where sizes are equal: a function of the sizes alone
    todo: list[tuple[Span, list[int]]] = [((0, slots), sorted(chosen, key=lambda each: (-int(sizes[each]), each)))]
    while todo:
        span, clients = todo.pop()
        if not clients:
            continue
        if span[1] - span[0] == 1:
            found[span[0]] = clients[0]
            continue
        left, right = halves(span)
        dealt: tuple[list[int], list[int]] = ([], [])
        rooms = (left[1] - left[0], right[1] - right[0])
        work = [0, 0]
        for client in clients:
            # the left half where both have equal work, so that all nodes deal alike
            half = int(work[1] < work[0])
            if len(dealt[half]) == rooms[half]:
                half = 1 - half
            dealt[half].append(client)
            work[half] += int(sizes[client])
        todo += [(left, dealt[0]), (right, dealt[1])]
    return tuple(found)


def deal(clients: Clients, labels: Array, seed: int) -> list[Rows]:
    """Return the rows with which each client trains.

    Args:
        clients: the option of the job.
        labels: of the training set, as the transform leaves them.
        seed: that of the job.

    Raises: ValueError naming the split, where it and the samples do not go together.
    """
    return deal_all(clients, labels, seed)[0]


def deal_all(clients: Clients, labels: Array, seed: int) -> tuple[list[Rows], list[Rows]]:
    """Return the rows with which each client trains, and those that are held out, none without `Clients(test=)`; with
    `test="own"` these are rows of the test set.

    Args:
        clients: the option of the job.
        labels: of the training set, as the transform leaves them.
        seed: that of the job.

    Raises: ValueError naming the split, where it and the samples do not go together.
    """
    given = clients.sizes
    sizes = None
    split = clients.dealer
    if isinstance(split, OwnSplit):
        given = clients.own_sizes
    if isinstance(given, Sizes):
        sizes = given.draw(len(labels), clients.count, keyed(seed, "sizes"))
    elif given is not None:
        sizes = np.asarray(given, np.int64)
        if sizes.sum() > len(labels):
            raise ValueError(f"Clients 'sizes' must be at most {len(labels)} samples together, got {sizes.sum()}")
    # a split that wrote into them would change what is trained
    labels = labels.view()
    labels.flags.writeable = False
    dealt, name = split.deal(labels, clients.count, sizes, keyed(seed, "split")), f"{type(split).__name__}.deal()"
    if not isinstance(dealt, Iterable):
        raise TypeError(f"{name} must return the rows of each client, got {arguments.short(dealt)}")
    rows = [whole_numbers(f"{name} for client {client}", each) for client, each in enumerate(dealt)]
    check_rows(split, rows, clients.count, len(labels))
    if not any(map(len, rows)):
        raise ValueError(f"Clients 'split' {type(split).__name__} must deal samples, got none for any client")
    if clients.test == OWN:
        ends = np.cumsum(clients.own_tests or (), dtype=np.int64)
        # the test set has the samples of one client behind those of another
        return rows, [np.arange(end - size, end) for size, end in zip(clients.own_tests or (), ends, strict=True)]
    kept, held = hold_out(clients.test, rows, seed)
    if held and not any(map(len, held)):
        raise ValueError(f"Clients 'test' must leave samples to evaluate on, but no client has two samples, got {clients.test}")
    return kept, held


def class_counts(clients: Clients, labels: Array, rows: Sequence[Rows]) -> Counts | None:
    """Return the samples of each client and class, of shape (clients, classes); None for labels that are no classes, or more
    than 100.

    Args:
        clients: the option of the job.
        labels: of the training set, as the transform leaves them.
        rows: those of each client.
    """
    with contextlib.suppress(ValueError):
        _, numbers = np.unique(class_numbers(clients, labels), return_inverse=True)  # which refuses labels that are no classes
        if (count := int(numbers.max()) + 1) <= _MOST_CLASSES:
            return np.array([np.bincount(numbers[each], minlength=count) for each in rows])
    return None


def dealt(clients: Clients, labels: Array, seed: int) -> tuple[list[Rows], list[Rows]]:
    """Return what `deal_all` does on a node, where the rows of each client must be those that the submitter has seen.

    Args:
        clients: the option of the job.
        labels: of the training set, as the transform leaves them.
        seed: that of the job.

    Raises: ValueError where the split deals something else here.
    """
    rows, held = deal_all(clients, labels, seed)
    sizes = tuple(map(len, rows))
    if clients.known is not None and sizes != clients.known:
        differs = next(each for each in range(clients.count) if sizes[each] != clients.known[each])
        raise ValueError(
            f"Clients 'split' {type(clients.dealer).__name__} must deal the same on every node: client {differs} has "
            f"{sizes[differs]} samples here, {clients.known[differs]} at the submitter"
        )
    return rows, held
