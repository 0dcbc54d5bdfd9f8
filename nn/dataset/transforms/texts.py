"""Texts as numbers: words looked up in a vocabulary, which is given or learnt.

Texts are no arrays of numbers, so no layer of a graph takes them. These transforms do, made of the kinds `Category` and `Text`
of a plan of columns; a model file keeps them as it keeps the statistics of `Normalize`, and its model takes texts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.dataset.interface import Arrays
from nn.dataset.plan.kinds import Category
from nn.dataset.plan.text import PADDING, UNKNOWN, Output, Split, Standard, Text, most_frequent, texts_of
from nn.dataset.transforms.abstract import AbsTransformer

__all__ = ["StringLookup", "TextVectorization"]

Lookup: TypeAlias = Literal["int", "one_hot", "multi_hot", "count"]
_Self = TypeVar("_Self", bound="_OfTexts")


class _OfTexts(AbsTransformer, configured=True):
    """Common part of transforms of texts, which learn a vocabulary."""

    takes_parts: ClassVar[bool] = False

    _of_texts: ClassVar[bool] = True

    vocabulary: tuple[str, ...] | None

    @abstractmethod
    def _learnt(self, texts: Array) -> dict[str, Any]:
        """Return arguments of the constructor that take the place of those that were not given."""

    @abstractmethod
    def _encoded(self, texts: Array) -> Array:
        """Return the numbers of texts, an array of objects."""

    def adapt(self, data: Any) -> None:
        """Learn the vocabulary of texts, in place of the one there is.

        Args:
            data: texts, (nested) lists or an array of them, or a data set, of which the training samples count.

        Raises:
            TypeError: where something else is among the texts.
        """
        learnt = self._learnt(self._texts("adapt() 'data'", data.load()[0] if hasattr(data, "load") else data))
        self._keep(**learnt)
        # Made of the vocabulary of before.
        vars(self).pop("_kind", None)

    def apply(self, x: Any) -> Array:
        """Return the numbers of texts: int32 for ids, float32 for rows of zeros and ones or of counts.

        Args:
            x: texts, lists or an array of them.

        Raises:
            ValueError: without a vocabulary, and for a word that it does not have where that is an error.
            TypeError: where something else is among the texts.
        """
        texts = self._texts("apply() 'x'", x)
        if self.vocabulary is None:
            raise ValueError(f"{type(self).__name__} must have a vocabulary: call adapt(texts), or give 'vocabulary'")
        return self._encoded(texts)

    def fitted(self: _Self, train_x: Array, train_y: Array) -> _Self:
        """Return the transform with the vocabulary of these training samples, or itself where it has one."""
        if self.vocabulary is not None:
            return self
        learnt = self._learnt(self._texts("samples", train_x))
        return type(self)(**{**self.get_config(), **learnt})

    def at_prediction(self, x: Array, y: Array | None) -> tuple[Array, Array | None]:
        """Return the numbers of texts; numbers are taken for those of texts already."""
        return (self.apply(x) if x.dtype.kind in "OUT" else x), y

    def __call__(
        self,
        train_x: Array,
        train_y: Array | None = None,
        test_x: Array | None = None,
        test_y: Array | None = None,
        seed: int = 0,
    ) -> Arrays:
        """Return the numbers of both parts, by the vocabulary of the training part unless there is one."""
        if train_y is None or test_x is None or test_y is None:
            raise TypeError(
                f"{type(self).__name__}() is called by data sets, on both of their parts; apply(texts) returns numbers"
            )
        known = self.fitted(train_x, train_y)
        return known.apply(train_x), train_y, known.apply(test_x), test_y

    def _texts(self, what: str, given: Any) -> Array:
        return texts_of(f"{type(self).__name__} {what}", given)

    def _checked(self, max_tokens: int | None, vocabulary: Sequence[str] | None) -> tuple[int | None, tuple[str, ...] | None]:
        """Return both arguments, checked; raise TypeError or ValueError naming one."""
        name = type(self).__name__
        most = None if max_tokens is None else arguments.integer(self, "max_tokens", max_tokens, minimum=1)
        if vocabulary is None:
            return most, None
        given = arguments.sequence(self, "vocabulary", vocabulary, "texts")
        if not all(isinstance(word, str) for word in given):
            raise TypeError(f"{name} 'vocabulary' must be a list of texts, got {arguments.short(vocabulary)}")
        # As `words` gives them, with those of a meaning of their own in front.
        words = tuple(word for word in given if word not in (PADDING, UNKNOWN))
        if len(set(words)) < len(words):
            twice = next(word for word, count in Counter(words).items() if count > 1)
            raise ValueError(f"{name} 'vocabulary' must be different texts, got {twice!r} twice")
        return most, words


class StringLookup(_OfTexts, configured=True):
    """Words as ids: 0 for a word that the vocabulary does not have, further ones for its words.

    Samples are texts ``(n,)`` or ``(n, words)``; ids have the same shape. With the output mode 'one_hot' they become
    ``(n, ids)`` or ``(n, words, ids)``, with 'multi_hot' and 'count' ``(n, ids)``.

    Args:
        max_tokens: most ids, that of unknown words included; the most frequent words have some. Default: no limit.
        num_oov_indices: 1, or 0 for a vocabulary that must have every word, whose first word then has the id 0.
        vocabulary: the words by their ids, those with a meaning of their own left out or not; default: those that `adapt` or a
            training learns, the most frequent one first.
        output_mode: 'int' for ids, 'one_hot', 'multi_hot' or 'count' for rows of zeros with a one, or a count, for each word.

    Raises TypeError or ValueError for other arguments.

    >>> lookup = nn.dataset.transforms.StringLookup()
    >>> lookup.adapt(["b", "a", "b"])
    >>> lookup.words, lookup.apply(["a", "c", "b"]).tolist()
    (['[UNK]', 'b', 'a'], [2, 0, 1])
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        vocabulary: Sequence[str] | None = None,
        output_mode: Lookup = "int",
    ) -> None:
        self.max_tokens, self.vocabulary = self._checked(max_tokens, vocabulary)
        self.num_oov_indices = arguments.integer(self, "num_oov_indices", num_oov_indices, minimum=0)
        if self.num_oov_indices > 1:
            raise ValueError(f"StringLookup 'num_oov_indices' must be 0 or 1, got {num_oov_indices}")
        self.output_mode = arguments.one_of(self, "output_mode", output_mode, get_args(Lookup))

    @property
    def words(self) -> list[str]:
        """The words by their ids."""
        return [UNKNOWN] * self.num_oov_indices + list(self.vocabulary or ())

    @cached_property
    def _kind(self) -> Category:
        return Category("", categories=self.vocabulary or ())

    def _learnt(self, texts: Array) -> dict[str, Any]:
        most = None if self.max_tokens is None else self.max_tokens - self.num_oov_indices
        return {"vocabulary": most_frequent(Counter(texts.reshape(-1).tolist()), most)}

    def _encoded(self, texts: Array) -> Array:
        ids = np.fromiter(self._kind.lookup(texts.reshape(-1).tolist()), np.int32, texts.size).reshape(texts.shape)
        if not self.num_oov_indices and (ids < 0).any():
            raise ValueError(f"StringLookup 'vocabulary' must have every word, got {arguments.short(texts[ids < 0][0])}")
        # The look-up gives -1 for a word that is not known.
        ids += np.int32(self.num_oov_indices)
        return ids if self.output_mode == "int" else self._rows(ids)

    def _rows(self, ids: Array) -> Array:
        rows = np.zeros((*ids.shape, len(self.words)), np.float32)
        np.put_along_axis(rows, ids[..., None].astype(np.intp), 1, axis=-1)
        if self.output_mode == "one_hot" or ids.ndim == 1:
            return rows
        every = tuple(range(1, ids.ndim))
        found: Array = rows.sum(axis=every) if self.output_mode == "count" else rows.max(axis=every)
        return found


class TextVectorization(_OfTexts, configured=True):
    """Texts as the ids of their words, or as counts of them.

    As ids, 0 stands for padding, which ``Embedding(.., mask_zero=True)`` leaves out, and 1 for a word that the vocabulary does
    not have. Samples are texts ``(n,)``; ids are ``(n, length)``, counts ``(n, words)``.

    Args:
        max_tokens: most ids, those of padding and of unknown words included; default: no limit.
        standardize: treatment of a text before it is split: 'lower_and_strip_punctuation', 'lower', 'strip_punctuation' or
            'none'.
        split: at 'whitespace', into each 'character', or 'none' for texts that are one word each.
        ngrams: how many words in a row are a word, too, up to this number.
        output_mode: 'int' for ids, 'multi_hot' for 1 at each word that occurs, 'count' for how often it does, 'tf_idf' for
            counts times log(1 + texts / (1 + texts with the word)).
        output_sequence_length: ids of a text; longer texts lose their end. Default: those of the longest text learnt from.
        vocabulary: the words by their ids, those with a meaning of their own left out or not; default: those that `adapt` or a
            training learns, the most frequent one first.
        idf_weights: the weights of the words of a given vocabulary, with 'tf_idf'.

    Raises TypeError or ValueError for other arguments.

    >>> vectorize = nn.dataset.transforms.TextVectorization(output_sequence_length=4)
    >>> vectorize.adapt(["To be, or not to be!", "To do is to be."])
    >>> vectorize.words[:5], vectorize.apply(["Do be so"]).tolist()
    (['', '[UNK]', 'to', 'be', 'or'], [[7, 3, 1, 0]])
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Standard | None = "lower_and_strip_punctuation",
        split: Split | None = "whitespace",
        ngrams: int | None = None,
        output_mode: Output = "int",
        output_sequence_length: int | None = None,
        vocabulary: Sequence[str] | None = None,
        idf_weights: Sequence[float] | None = None,
    ) -> None:
        self.max_tokens, self.vocabulary = self._checked(max_tokens, vocabulary)
        # Keras says None for "none".
        self.standardize = arguments.one_of(
            self, "standardize", "none" if standardize is None else standardize, get_args(Standard)
        )
        self.split = arguments.one_of(self, "split", "none" if split is None else split, get_args(Split))
        self.ngrams = 1 if ngrams is None else arguments.integer(self, "ngrams", ngrams, minimum=1)
        self.output_mode = arguments.one_of(self, "output_mode", output_mode, get_args(Output))
        self.output_sequence_length = output_sequence_length
        if output_sequence_length is not None:
            arguments.integer(self, "output_sequence_length", output_sequence_length, minimum=1)
            if self.output_mode != "int":
                raise ValueError(
                    f"TextVectorization 'output_sequence_length' must go with ids, got {self.output_mode!r} beside it"
                )
        self.idf_weights: tuple[float, ...] | None = None
        if idf_weights is not None:
            self.idf_weights = tuple(
                [
                    arguments.number(self, "idf_weights", each, 0)
                    for each in arguments.sequence(self, "idf_weights", idf_weights, "numbers")
                ]
            )
        if (self.output_mode == "tf_idf" and self.vocabulary is not None) != (self.idf_weights is not None):
            raise ValueError("TextVectorization 'idf_weights' must be given with a 'vocabulary' for 'tf_idf', and only then")
        words = len(self.vocabulary or ())
        if self.idf_weights is not None and len(self.idf_weights) != words:
            raise ValueError(
                f"TextVectorization 'idf_weights' must be one for each of {words} words, got {len(self.idf_weights)}"
            )

    @property
    def words(self) -> list[str]:
        """The words by their ids."""
        return self._kind.words

    @cached_property
    def _kind(self) -> Text:
        return Text(
            "",
            vocabulary=self.vocabulary,
            length=self.output_sequence_length,
            standardize=self.standardize,
            split=self.split,
            ngrams=self.ngrams,
            output=self.output_mode,
            weights=self.idf_weights or (),
        )

    def _learnt(self, texts: Array) -> dict[str, Any]:
        every = texts.reshape(-1).tolist()
        # Without the vocabulary of before, which `Text.adapted` would keep.
        blank = TextVectorization(**{**self.get_config(), "vocabulary": None, "idf_weights": None})
        found = blank._kind.adapted(every, self.max_tokens)
        learnt: dict[str, Any] = {"vocabulary": found.vocabulary}
        if self.output_mode == "int":
            learnt["output_sequence_length"] = found.length
        return {**learnt, "idf_weights": found.weights} if self.output_mode == "tf_idf" else learnt

    def _encoded(self, texts: Array) -> Array:
        # A column of texts is texts.
        flat = texts.reshape(-1) if texts.ndim == 2 and texts.shape[1] == 1 else texts
        if flat.ndim != 1:
            raise ValueError(f"TextVectorization needs texts of shape (n,), got {texts.shape}")
        return self._kind.numbers(flat.tolist())
