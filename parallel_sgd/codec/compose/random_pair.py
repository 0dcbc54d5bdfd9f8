"""Exchange with one other worker, another one each time."""

from __future__ import annotations

from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.codec.pipeline import Draw

from .mixing import Mixing
from .neighbours import Neighbours


class RandomPair(Neighbours):
    """In every batch workers are paired anew, at random and on all nodes alike; both of a pair get (x_i + x_j) / 2.

    Of an odd number one keeps what it has. Since the pairs are a matching that all know, nobody waits for one who waits for
    another. Bytes per worker: a payload. A worker may be several batches ahead of another with which it is not paired, so
    a packet that was lost is only sent again while its sender is no more than one batch ahead.

    Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", 2018, here in step.
    """

    def codec_class(self) -> type[Codec]:
        """Mixing."""
        return Mixing

    def weights(self, node: int, workers: int, draw: Draw) -> dict[int, float]:
        """One half for each of the pair."""
        order = draw._replace(variable=-1).generator(shared=True).permutation(workers).tolist()
        place = order.index(node)
        partner = place ^ 1
        return {node: 0.5, order[partner]: 0.5} if partner < workers else {node: 1.0}

    def __repr__(self) -> str:
        return f"RandomPair(gamma={self.gamma:g})"
