"""Text as a data set of byte-pair tokens and the tokens that follow them."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar

from nn.arrays import Array
from nn.dataset.byte_pairs import BytePairs
from nn.dataset.files import find_given
from nn.dataset.text_windows import TextWindows

__all__ = ["TokenText"]


class TokenText(TextWindows, configured=True):
    """Windows of `length` byte-pair tokens of files, with the tokens that follow each of them as labels.

    Shapes: x and y int32 ``(n, length)``, ids of `tokens`; y is x one token later. Several files are read one after the other.
    The last `test_fraction` of the tokens are there to evaluate on, in windows side by side. A relative path counts from the
    working directory, else from ``$PSGD_DATA``.

    >>> with open("text.txt", "w", encoding="utf-8") as file:
    ...     written = file.write("to be or not to be, that is the question. " * 20)
    >>> tokens = nn.dataset.BytePairs.learn("text.txt", vocabulary=280)
    >>> data = nn.dataset.TokenText("text.txt", tokens, length=16)
    >>> model = nn.model.Transformer(tokens.vocabulary, data.length, rotary=True)
    >>> data.load()[0].shape[1], tokens.decode(data.load()[0][0])
    (16, b'to be or not to be, that is the question. to be or')

    Args:
        path: a file or several; any bytes.
        tokens: the tokens, the path of a file of `BytePairs.save`, or the pairs themselves. A job sends the pairs along.
        length: tokens of a window.
        test_fraction: share of the tokens, the last ones, to evaluate on.
        stride: tokens from one window to train on to the next; None: `length`.

    Raises TypeError or ValueError for arguments that are not as said. `load` raises FileNotFoundError for a missing file and
    ValueError for a text too short to fill a window of either part.
    """

    _unit: ClassVar[str] = "tokens"

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        tokens: BytePairs | str | os.PathLike[str] | Sequence[Sequence[int]],
        length: int = 64,
        test_fraction: float = 0.1,
        stride: int | None = None,
    ) -> None:
        super().__init__(path, length, test_fraction, stride)
        if isinstance(tokens, (str, os.PathLike)):
            tokens = BytePairs.load(tokens)
        self.tokens = tokens if isinstance(tokens, BytePairs) else BytePairs(tokens)

    def argument(self, name: str) -> Any:
        return self.tokens.argument("merges") if name == "tokens" else super().argument(name)

    def __repr__(self) -> str:
        # The pairs themselves are hundreds of numbers.
        config = {**self.get_config(), "tokens": self.tokens}
        return f"TokenText({', '.join(f'{name}={value!r}' for name, value in config.items())})"

    def content(self) -> bytes:
        """Return the bytes of all files. Raises as `load`."""
        return b"".join(find_given(path, self).read_bytes() for path in self.paths)

    def _ids(self) -> Array:
        return self.tokens.encode(self.content())
