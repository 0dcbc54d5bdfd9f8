"""Texts as numbers: words of a vocabulary, by which a text becomes ids or counts."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.plan.cells import Cells, Spelling, is_missing, text_of
from nn.dataset.plan.kinds import Category, Column, UnknownTexts

__all__ = ["PADDING", "UNKNOWN", "Output", "Split", "Standard", "Text", "most_frequent"]

Standard: TypeAlias = Literal["lower_and_strip_punctuation", "lower", "strip_punctuation", "none"]
Split: TypeAlias = Literal["whitespace", "character", "none"]
Output: TypeAlias = Literal["int", "multi_hot", "count", "tf_idf"]

PADDING: Final = ""
"""The word with the id 0 of texts as ids, which stands behind the last word."""
UNKNOWN: Final = "[UNK]"
"""The word that stands for all that a vocabulary does not have."""
_PUNCTUATION: Final = string.punctuation.encode()
_ONE: Final = np.float32(1)
"""Added at places a hundred times as fast as a number of another type."""
_TOGETHER: Final = 1024
"""Texts of which the words are in hand at a time."""
_LARGEST = 1 << 24  # length of a text; numbers of one that has no spaces are as many as its characters


@dataclass(frozen=True)
class Text(Column):
    """Texts of several words, each word a number.

    As ids, 0 stands for padding, 1 for a word that the vocabulary does not have, further ones for its words. As counts there is
    no padding, and 0 stands for words that it does not have.

    Args:
        vocabulary: the words, the most frequent one first; None for those of texts that `adapted` is given.
        length: ids of a text, of which longer ones lose their end and shorter ones get zeros; None for the longest one that
            `adapted` is given. It counts with the output "int" only.
        standardize: treatment of a text before it is split: "lower_and_strip_punctuation", "lower", "strip_punctuation" or
            "none".
        split: at "whitespace", into each "character", or "none" for a text that is one word.
        ngrams: how many words in a row are a word, too, up to this number.
        output: "int" for ids, "multi_hot" for 1 at each word that occurs, "count" for how often it does, "tf_idf" for counts
            times the weights.
        weights: weight of each word with "tf_idf", by `adapted`: log(1 + texts / (1 + texts with the word)).
    """

    vocabulary: tuple[str, ...] | None = None
    length: int | None = None
    standardize: Standard = "lower_and_strip_punctuation"
    split: Split = "whitespace"
    ngrams: int = 1
    output: Output = "int"
    weights: tuple[float, ...] = ()

    word: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        arguments.one_of(owner, "standardize", self.standardize, get_args(Standard))
        arguments.one_of(owner, "split", self.split, get_args(Split))
        arguments.one_of(owner, "output", self.output, get_args(Output))
        arguments.integer(owner, "ngrams", self.ngrams, minimum=1)
        if self.length is not None and arguments.integer(owner, "length", self.length, minimum=1) > _LARGEST:
            raise ValueError(f"{owner} 'length' must be at most {_LARGEST}, got {self.length}")
        if self.output == "tf_idf" and self.vocabulary is not None and len(self.weights) != len(self.vocabulary):
            raise ValueError(f"{owner} 'weights' must be one for each of {len(self.vocabulary)} words, got {len(self.weights)}")

    @property
    def words(self) -> list[str]:
        """The words by their ids."""
        return [*((PADDING, UNKNOWN) if self.output == "int" else (UNKNOWN,)), *(self.vocabulary or ())]

    @property
    def names(self) -> list[str]:
        if self.output == "int":
            return [f"{self.name}[{place}]" for place in range(self.length or 0)]
        return [f"{self.name}={word}" for word in self.words]

    @property
    def width(self) -> int:
        return (self.length or 0) if self.output == "int" else 1 + len(self.vocabulary or ())

    @property
    def about(self) -> str:
        return "" if self.vocabulary is None else f"{len(self.vocabulary)} words"

    @property
    def is_open(self) -> bool:
        return self.vocabulary is None or (self.output == "int" and self.length is None)

    def tokens(self, text: str) -> list[str]:
        """Return the words of a text."""
        if self.standardize in ("lower", "lower_and_strip_punctuation"):
            text = text.lower()
        if self.standardize in ("strip_punctuation", "lower_and_strip_punctuation"):
            # As bytes, of which those of other signs in UTF-8 are none of ASCII: a seventh of the time of `str.translate`.
            text = text.encode(errors="surrogatepass").translate(None, _PUNCTUATION).decode(errors="surrogatepass")
        found = text.split() if self.split == "whitespace" else list(text) if self.split == "character" else [text]
        if self.ngrams == 1:
            return found
        longer = range(2, self.ngrams + 1)
        return found + [" ".join(found[at : at + n]) for n in longer for at in range(len(found) - n + 1)]

    def adapted(self, texts: Iterable[str], most: int | None = None) -> Text:
        """Return the kind with the words of texts, and with their longest length where it has none.

        Args:
            texts: texts to train on.
            most: most words, with those for padding and for unknown words; None for all.
        """
        counts: Counter[str] = Counter()
        within: Counter[str] = Counter()
        longest = number = 0
        for text in texts:
            found = self.tokens(text)
            counts.update(found)
            longest, number = max(longest, len(found)), number + 1
            if self.output == "tf_idf":
                within.update(set(found))
        reserved = len(replace(self, vocabulary=None).words)
        words = (
            most_frequent(counts, None if most is None else max(most - reserved, 0))
            if self.vocabulary is None
            else self.vocabulary
        )
        weights = tuple(math.log1p(number / (1 + within[word])) for word in words) if self.output == "tf_idf" else ()
        # One id at least: a text without words is a row of padding.
        return replace(self, vocabulary=words, length=self.length or max(longest, 1), weights=weights)

    def ids(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Return the ids ``(texts, length)``, those of the longest text where the kind has no length."""
        counts, numbers = self._found(texts)
        length = self.length or int(counts.max(initial=1))
        made = np.zeros((len(texts), length), np.int32)
        made[np.arange(length) < counts[:, None]] = numbers
        return made

    def counts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row of numbers, one for each word, for each text."""
        made = np.zeros((len(texts), self.width), np.float32)
        counts, numbers = self._found(texts)
        # An assignment would count a word once that occurs several times.
        np.add.at(made.reshape(-1), np.repeat(np.arange(len(made)) * self.width, counts) + numbers, _ONE)
        if self.output == "multi_hot":
            return np.minimum(made, 1)
        return made * self._weights if self.output == "tf_idf" else made

    def numbers(self, texts: Sequence[str]) -> Array:
        """Return the ids or the counts of texts, as `output` says."""
        return self.ids(texts) if self.output == "int" else self.counts(texts)

    def encode(self, cells: Cells, spelling: Spelling, unknown: UnknownTexts = "error") -> NDArray[np.float64]:
        """Return the numbers of cells; a word that the vocabulary does not have is no error."""
        texts = texts_in(cells)
        made = self.numbers([text or "" for text in texts]).astype(np.float64)
        made[np.array([text is None for text in texts], bool)] = np.nan
        return made

    def filled(self, numbers: NDArray[np.float64]) -> None:
        # A text without words.
        numbers[np.isnan(numbers)] = 0.0

    def _found(self, texts: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Return how many words of each text count, and the numbers of all of them, text by text."""
        most = self.length if self.output == "int" else None
        counts, numbers = np.zeros(len(texts), np.intp), [np.zeros(0, np.int32)]
        # A part at a time, as words take several times the memory of their numbers.
        for first in range(0, len(texts), _TOGETHER):
            words = [self.tokens(text)[:most] for text in texts[first : first + _TOGETHER]]
            own = counts[first : first + len(words)]
            own[:] = [len(each) for each in words]
            numbers.append(np.fromiter(self._words.lookup(chain.from_iterable(words)), np.int32, int(own.sum())))
        made = np.concatenate(numbers)
        # The words follow those for padding and for what is unknown, which stands right before them.
        made += 2 if self.output == "int" else 1
        return counts, made

    @cached_property
    def _words(self) -> Category:
        return Category(self.name, categories=self.vocabulary or ())

    @cached_property
    def _weights(self) -> NDArray[np.float32]:
        # Words that are not known weigh as others do in the mean.
        mean = sum(self.weights) / len(self.weights) if self.weights else 0.0
        return np.array([mean, *self.weights], np.float32)


def most_frequent(counts: Counter[str], most: int | None = None) -> tuple[str, ...]:
    """Return words by how often they occur, those of equal counts in reverse order of their bytes, as Keras does.

    Args:
        counts: how often each word occurs.
        most: most words to return; None for all.
    """
    ordered = sorted(counts, key=lambda word: (counts[word], word.encode()), reverse=True)
    # The words that have a meaning of their own are not learnt.
    return tuple([word for word in ordered if word not in (PADDING, UNKNOWN)][:most])


def texts_in(cells: Cells) -> list[str | None]:
    """Return cells ``(rows,)`` as texts, None for a missing one; words such as NA and an empty text are texts."""
    return [
        cell if isinstance(cell, str) else None if is_missing(cell) else text_of(cell)
        for cell in (cells.tolist() if cells.dtype.kind != "M" else cells.astype(str).tolist())
    ]


def texts_of(owner: str, given: Any) -> NDArray[np.object_]:
    """Return texts as an array of objects.

    Args:
        owner: argument that holds them, for errors.
        given: a text, (nested) lists of texts, an array of texts, or a Series.

    Raises:
        TypeError: where something else is among them.
    """
    given = given.to_numpy() if hasattr(given, "to_numpy") else given
    # As objects: NumPy would make texts of numbers beside texts.
    made = given if isinstance(given, np.ndarray) else np.array(given, object)
    if made.dtype.kind == "U":
        return made.astype(object)
    # By their types, which are few.
    kinds = set(map(type, made.reshape(-1).tolist())) if made.dtype.kind in "OT" else {object}
    if not all(issubclass(kind, str) for kind in kinds):
        wrong = next((each for each in made.reshape(-1).tolist() if not isinstance(each, str)), made.dtype)
        raise TypeError(f"{owner} must be texts, got {arguments.short(wrong)}")
    return made.astype(object)
