"""The images of a batch, a few at a time."""

from collections.abc import Iterator


class Blocks:
    """Slices of `images` images, as long as `limit` allows but not empty; the last one may be shorter.

    Fewer images never make longer slices: work space for a part of a batch is enough for a smaller part.
    """

    def __init__(self, images: int, limit: int) -> None:
        self.largest = max(1, min(images, limit))
        self._slices = [slice(start, min(start + self.largest, images)) for start in range(0, images, self.largest)]
        self.sizes = {part.stop - part.start for part in self._slices}
        """The lengths that occur."""

    def __iter__(self) -> Iterator[slice]:
        return iter(self._slices)
