"""Byte-pair tokens: numbers for the byte strings that a text is made of, learned from a text."""

from __future__ import annotations

import heapq
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array
from nn.dataset.files import find_given
from nn.tensor_files import read_file, write_file

__all__ = ["BytePairs"]

_FORMAT: Final = "psgd.byte-pairs/1"
_BYTES: Final = 256
_SINGLE: Final = [bytes([each]) for each in range(_BYTES)]
_LONGEST: Final = 1024  # bytes of a token: each pair may double them, and a file of pairs may be a stranger's
#: Pieces that tokens do not cross: words with a blank in front, numbers, signs, and blanks. Every byte is in one class; the
#: lengths are bounded, as the time for a piece grows with the square of its length.
_PIECES: Final = re.compile(rb" ?[A-Za-z_\x80-\xff]{1,32}| ?[0-9]{1,3}| ?[^\sA-Za-z_0-9\x80-\xff]{1,8}|\s{1,32}(?!\S)|\s{1,32}")


class BytePairs(Configurable, configured=True):
    """Tokens that are bytes and, from 256 on, pairs of earlier tokens (Sennrich, Haddow and Birch, "Neural Machine Translation
    of Rare Words with Subword Units", 2016).

    Any bytes are tokens, and their tokens give the same bytes. Tokens do not cross the ends of words, numbers and runs of
    other signs.

    >>> tokens = nn.dataset.BytePairs.learn(b"the cat sat on the mat, and the rat sat on the cat", vocabulary=270)
    >>> ids = tokens.encode("the cat")
    >>> len(ids), tokens.decode(ids)
    (2, b'the cat')

    Args:
        merges: pairs of ids; pair i is the token 256 + i, and joins two tokens before it.

    Raises TypeError or ValueError for pairs that are none, and for a pair that comes twice.
    """

    def __init__(self, merges: Sequence[Sequence[int]] = ()) -> None:
        if not isinstance(merges, (list, tuple)):
            raise TypeError(f"BytePairs 'merges' must be a list of pairs of ids, got {arguments.short(merges)}")
        pairs: list[tuple[int, int]] = []
        spelled = list(_SINGLE)
        for number, pair in enumerate(merges, start=_BYTES):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise TypeError(f"BytePairs 'merges' must be pairs of ids, got {arguments.short(pair)}")
            for each in pair:
                if arguments.integer(self, "merges", each, minimum=0) >= number:
                    raise ValueError(f"BytePairs 'merges': token {number} must join tokens below {number}, got {each}")
            pairs.append((pair[0], pair[1]))
            spelled.append(spelled[pair[0]] + spelled[pair[1]])
            if len(spelled[-1]) > _LONGEST:
                raise ValueError(
                    f"BytePairs 'merges': token {number} must have at most {_LONGEST} bytes, got {len(spelled[-1])}"
                )
        # Of a pair that comes twice the first token would never be used.
        if len(set(pairs)) < len(pairs):
            pair = next(each for each, count in Counter(pairs).items() if count > 1)
            raise ValueError(f"BytePairs 'merges' must be different pairs, got {pair} twice")
        self.merges = tuple(pairs)
        self._spelled = spelled
        self._ranks = {pair: number for number, pair in enumerate(pairs, start=_BYTES)}

    @classmethod
    def learn(cls, source: bytes | str | os.PathLike[str], vocabulary: int = 512) -> BytePairs:
        """Return tokens for a text: again and again the most frequent pair becomes one, of equally frequent ones the lowest.

        Equal texts give equal tokens on every machine.

        Args:
            source: the text as bytes, or the path of a file; a relative one counts from the working directory, else from
                ``$PSGD_DATA``.
            vocabulary: number of tokens, at least 256; fewer where no pair comes twice any more.

        Raises:
            FileNotFoundError: where there is no such file.
        """
        arguments.integer("BytePairs.learn()", "vocabulary", vocabulary, minimum=_BYTES)
        if not isinstance(source, (bytes, str, os.PathLike)):
            raise TypeError(f"BytePairs.learn() 'source' must be bytes or a path, got {arguments.short(source)}")
        content = source if isinstance(source, bytes) else find_given(source, cls()).read_bytes()
        return cls(_learned(Counter(_PIECES.findall(content)), vocabulary - _BYTES))

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return len(self._spelled)

    def encode(self, text: str | bytes) -> Array:
        """Return the ids of the tokens of a text ``(n,)``, int32; a str is taken as UTF-8."""
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"BytePairs.encode() 'text' must be a str or bytes, got {arguments.short(text)}")
        try:
            content = text.encode() if isinstance(text, str) else text
        except UnicodeEncodeError as error:
            raise ValueError(
                f"BytePairs.encode() 'text' must be a text that UTF-8 has, got half a character, {text[error.start]!r}, at "
                f"position {error.start}"
            ) from None
        known: dict[bytes, list[int]] = {}
        ids: list[int] = []
        for piece in _PIECES.findall(content):
            # A text has few different words.
            if piece not in known:
                known[piece] = self._joined(list(piece))
            ids += known[piece]
        return np.array(ids, np.int32)

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of tokens; `bytes.decode("utf-8", "replace")` makes them a text.

        Raises:
            ValueError: for an id that is none of a token.
        """
        found = np.asarray(list(ids) if not isinstance(ids, np.ndarray) else ids).reshape(-1)
        if found.size and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= self.vocabulary):
            raise ValueError(f"BytePairs.decode() 'ids' must be integers from 0 to {self.vocabulary - 1}, got {found!s:.80}")
        return b"".join([self._spelled[each] for each in found.tolist()])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pairs to the file at `path`, as JSON."""
        write_file(path, json.dumps({"format": _FORMAT, "merges": self.merges}).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BytePairs:
        """Return the tokens of a file of `save` at `path`; raise FileNotFoundError as `learn`, ValueError for another file."""
        place = find_given(path, cls())
        try:
            found = json.loads(read_file(place))
            if not isinstance(found, dict) or found.get("format") != _FORMAT or not isinstance(found.get("merges"), list):
                raise ValueError(f"expected 'format' {_FORMAT!r} and a list 'merges', got {arguments.short(found)}")
            return cls(found["merges"])
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"'{place}' holds no byte pairs: {error}") from error

    def argument(self, name: str) -> Any:
        return [list(pair) for pair in self.merges]

    def __repr__(self) -> str:
        return f"BytePairs(<{len(self.merges)} pairs>)"

    def _joined(self, ids: list[int]) -> list[int]:
        """Return the tokens of a piece: pairs are joined in the order in which they were learned."""
        ranks = self._ranks
        while len(ids) > 1:
            token = min(ranks.get(pair, self.vocabulary) for pair in pairwise(ids))
            if token == self.vocabulary:
                break
            ids = _merged(ids, self.merges[token - _BYTES], token)
        return ids


def _learned(pieces: Counter[bytes], most: int) -> list[tuple[int, int]]:
    """Return the pairs that are learned from pieces with their counts, `most` of them at most."""
    words = [list(piece) for piece in pieces]
    times = list(pieces.values())
    counts: Counter[tuple[int, int]] = Counter()
    places: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for place, word in enumerate(words):
        for pair in pairwise(word):
            counts[pair] += times[place]
            places[pair].add(place)
    # By falling counts, then by ids. A count that has changed since stands in the heap as another entry.
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    found: list[tuple[int, int]] = []
    while heap and len(found) < most:
        count, pair = heapq.heappop(heap)
        if -count != counts[pair]:
            continue
        # A pair that comes once saves nothing.
        if count > -2:
            break
        token = _BYTES + len(found)
        found.append(pair)
        changed: set[tuple[int, int]] = set()
        # In a word that has lost the pair by another merge nothing is joined, and its counts stay as they are.
        for place in places.pop(pair):
            word, each = words[place], times[place]
            merged = words[place] = _merged(word, pair, token)
            for old in pairwise(word):
                counts[old] -= each
                changed.add(old)
            for new in pairwise(merged):
                counts[new] += each
                changed.add(new)
                places[new].add(place)
        changed.discard(pair)
        del counts[pair]
        for other in changed:
            if counts[other] > 0:
                heapq.heappush(heap, (-counts[other], other))
    return found


def _merged(ids: list[int], pair: tuple[int, int], token: int) -> list[int]:
    """Return the ids with a token in place of each pair, from left to right."""
    first, second = pair
    made: list[int] = []
    place, last = 0, len(ids) - 1
    while place <= last:
        if place < last and ids[place] == first and ids[place + 1] == second:
            made.append(token)
            place += 2
        else:
            made.append(ids[place])
            place += 1
    return made
