"""Where all nodes go on, from what each holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parallel_sgd.checkpoint.choose import CheckpointOffer, CheckpointSource, Choice, choose
from parallel_sgd.progress import Position

from ...statements import covers

SERVER = -2


def common(owner: int, epoch: int, workers: int = 2) -> CheckpointOffer:
    return CheckpointOffer(owner, epoch, 0, False, workers)


def personal(owner: int, epoch: int, workers: int = 2) -> CheckpointOffer:
    return CheckpointOffer(owner, epoch, 0, True, workers)


def found(choice: Choice | None) -> Choice:
    assert choice is not None
    return choice


@covers("FD-10")
def test_nobody_holds_any() -> None:
    assert choose({0: [], 1: []}, [0, 1]) is None
    assert choose({0: [], 1: [], SERVER: [personal(SERVER, 3)]}, [0, 1], SERVER) is None


def test_the_newest_of_any_worker_where_all_have_the_same_state() -> None:
    """The other one is sent it; who has its own position keeps that."""
    choice = found(choose({0: [common(0, 1), common(0, 2)], 1: [common(1, 1)]}, [0, 1]))
    assert (choice.position, choice.whole, choice.reason) == (Position(2, 0), True, "")
    assert choice.sources == {0: CheckpointSource(0, 0), 1: CheckpointSource(0, 0)}
    assert choice.said == "Training goes on after 2 epochs, with epoch 3."


@covers("FD-8")
def test_the_newest_that_all_have_where_each_needs_its_own() -> None:
    """The least of what they have; the message says why."""
    choice = found(choose({0: [personal(0, 1), personal(0, 2)], 1: [personal(1, 1)]}, [0, 1]))
    assert choice.position == Position(1, 0) and choice.whole
    assert choice.sources == {0: CheckpointSource(0, 0), 1: CheckpointSource(1, 1)}
    assert choice.reason == "The newest checkpoint, after 2 epochs, cannot be used as it is: the state of node(s) 1 is lacking."


def test_nodes_that_changed_places() -> None:
    """What one needs another one holds; of two holders the node itself comes first."""
    swapped = found(choose({0: [personal(1, 4)], 1: [personal(0, 4)]}, [0, 1]))
    assert swapped.sources == {0: CheckpointSource(1, 0), 1: CheckpointSource(0, 1)} and swapped.whole
    both = [personal(0, 4), personal(1, 4)]
    assert found(choose({0: both, 1: both}, [0, 1])).sources == {0: CheckpointSource(0, 0), 1: CheckpointSource(1, 1)}


def test_a_server_that_remembers_something_takes_part() -> None:
    offers = {0: [common(0, 2), common(0, 1)], 1: [common(1, 2)], SERVER: [personal(SERVER, 1)]}
    choice = found(choose(offers, [0, 1], SERVER))
    assert choice.position == Position(1, 0) and "node(s) -2" in choice.reason
    assert choice.sources == {0: CheckpointSource(0, 0), 1: CheckpointSource(0, 0), SERVER: CheckpointSource(SERVER, SERVER)}
    assert found(choose(offers, [0, 1])).position == Position(2, 0)


def test_when_nothing_is_complete_the_newest_counts_in_part() -> None:
    """Training never starts over while anybody has anything; all take the same values, and what is personal begins anew."""
    choice = found(choose({0: [personal(0, 1)], 1: [personal(1, 3)], SERVER: [personal(SERVER, 3)]}, [0, 1], SERVER))
    assert (choice.position, choice.whole) == (Position(3, 0), False)
    assert choice.sources == {0: CheckpointSource(1, 1), 1: CheckpointSource(1, 1)}
    assert "begins anew" in choice.said and choice.said.endswith("Training goes on after 3 epochs, with epoch 4.")


def test_other_numbers_of_workers() -> None:
    """What all share serves any number; personal states only as many as there were."""
    offers = {0: [personal(0, 3), common(0, 2)], 1: [personal(1, 3)], 2: []}
    choice = found(choose(offers, [0, 1, 2]))
    assert (choice.position, choice.whole) == (Position(2, 0), True)
    assert "by another number of workers" in choice.reason
    assert found(choose(offers, [0, 1])).position == Position(3, 0)
    assert not found(choose({0: [personal(0, 3)]}, [0, 1, 2])).whole


_OFFER = st.builds(
    CheckpointOffer, st.sampled_from([0, 1, 2, SERVER]), st.integers(0, 3), st.integers(0, 1), st.booleans(), st.just(3)
)
_OFFERS = st.fixed_dictionaries({node: st.lists(_OFFER, max_size=4) for node in (0, 1, 2, SERVER)})


@given(_OFFERS, st.booleans())
def test_a_choice_can_be_carried_out(offers: dict[int, list[CheckpointOffer]], keeps: bool) -> None:
    """Every source holds what is to be taken from it; a whole choice leaves nobody out; nobody is sent back without need."""
    server = SERVER if keeps else None
    choice = choose(offers, [0, 1, 2], server)
    by_worker = [offer for found in offers.values() for offer in found if offer.owner >= 0]
    assert (choice is None) == (not by_worker)
    if choice is None:
        return
    for node, source in choice.sources.items():
        mine = [offer for offer in offers[source.holder] if (offer.owner, offer.position) == (source.owner, choice.position)]
        assert mine and (node == SERVER) == (source.owner == SERVER)
    assert set(choice.sources) >= {0, 1, 2}
    if choice.whole:
        assert (SERVER in choice.sources) == keeps
        if any(offer.personal for offer in by_worker if offer.position == choice.position):
            assert all(choice.sources[node].owner == node for node in (0, 1, 2))
    else:
        assert choice.position == max(offer.position for offer in by_worker) and SERVER not in choice.sources
