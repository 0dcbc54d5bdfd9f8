"""Text as a data set of characters and the characters that follow them."""

import os
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.dataset.files import find_given
from nn.dataset.text_windows import TextWindows

__all__ = ["CharacterText"]


class CharacterText(TextWindows, configured=True):
    """Windows of `length` characters of text files (UTF-8), with the characters that follow each of them as labels.

    Shapes: x and y int32 ``(n, length)``, places in `vocabulary`, which is made of the characters of all files in the order of
    their code points; y is x one character later. Several files are read one after the other. The last `test_fraction` of the
    characters are there to evaluate on, in windows side by side; windows to train on begin every `stride` characters (side
    by side if it is None). A relative path counts from the working directory, else from ``$PSGD_DATA``.

    Args:
        path: of a file, or of several.
        length: characters of a window, at least 1.
        test_fraction: share of the characters at the end to evaluate on.
        stride: characters from the begin of one window to that of the next; default: `length`.

    >>> with open("text.txt", "w", encoding="utf-8") as file:
    ...     written = file.write("to be or not to be, that is the question. " * 20)
    >>> data = nn.dataset.CharacterText("text.txt", length=32, stride=16)
    >>> model = nn.model.Transformer(len(data.vocabulary), data.length)
    >>> data.load()[0].shape
    (46, 32)

    Raises TypeError or ValueError for arguments that are not as said. `load` raises FileNotFoundError for a missing file,
    ValueError for one that is no UTF-8 and for a text too short to fill a window of either part.
    """

    _unit: ClassVar[str] = "characters"

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        length: int = 64,
        test_fraction: float = 0.1,
        stride: int | None = None,
    ) -> None:
        super().__init__(path, length, test_fraction, stride)

    @property
    def vocabulary(self) -> str:
        """The characters, each at the place that is its id; reads the files."""
        return "".join(sorted(set(self.text())))

    def text(self) -> str:
        """Return the text of all files. Raises as `load`."""
        return "".join(self._read(path) for path in self.paths)

    def encode(self, text: str) -> Array:
        """Return the ids of a text, int32; raise ValueError for a character that the files do not have."""
        return _encode(text, self.vocabulary)

    def _ids(self) -> Array:
        text = self.text()
        return _encode(text, "".join(sorted(set(text))))

    def _read(self, path: str) -> str:
        found = find_given(path, self)
        try:
            # Without the mark of order that some programs write in front of a text.
            return found.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"CharacterText: '{found}' must be text in UTF-8: {error}") from error


def _encode(text: str, vocabulary: str) -> Array:
    """Return the place of each character in the vocabulary, which is sorted."""
    # Four bytes for each character, so that the bytes are code points.
    points, known = (np.frombuffer(each.encode("utf-32-le"), "<u4") for each in (text, vocabulary))
    ids = np.searchsorted(known, points)
    # A character beyond the last known one would have a place that does not exist.
    strange = np.flatnonzero(known[np.minimum(ids, len(known) - 1)] != points) if len(known) else np.arange(len(points))
    if strange.size:
        raise ValueError(f"CharacterText: {text[strange[0]]!r} is no character of the files, which have {vocabulary!r:.80}")
    return ids.astype(np.int32)
