"""What a data set is: four arrays, a name, and a checksum that tells whether a machine already holds them."""

from abc import ABC, abstractmethod
from functools import cached_property

from nn.configurable import Configurable
from nn.dataset.checksum import Arrays, checksum_of

__all__ = ["AbsDataset"]


class AbsDataset(Configurable, ABC):
    """A data set for supervised learning, split into a training part and a test part.

    A subclass implements `load`, and `get_config` when its constructor takes arguments that are plain data
    (samples themselves are none):

    >>> class Parity(AbsDataset):
    ...     def load(self, download=True):
    ...         x = np.arange(8, dtype=np.uint8)[:, None]
    ...         return x[:6], x[:6, 0] % 2, x[6:], x[6:, 0] % 2
    """

    @property
    def name(self) -> str:
        """The name of the data set's directory; the class name in lower case unless a subclass says otherwise."""
        return type(self).__name__.lower()

    @abstractmethod
    def load(self, download: bool = True) -> Arrays:
        """Return ``(train_x, train_y, test_x, test_y)``, samples along the first axis.

        Every call returns equal arrays. With ``download=False`` nothing is fetched from a network.

        Raises FileNotFoundError where the samples cannot be had, ValueError where their files are damaged.
        """

    def checksum(self) -> str:
        """Return `checksum_of` the four arrays (64 hexadecimal digits); loads them once and remembers the result."""
        return self._checksum

    @cached_property
    def _checksum(self) -> str:
        return checksum_of(self.load())
