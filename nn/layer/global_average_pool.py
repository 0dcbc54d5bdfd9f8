"""The mean of each channel."""

from nn.layer.layer import Layer
from nn.value import Value


class GlobalAveragePool(Layer):
    """Takes the mean of each channel over all places (Lin et al., Network in network, ICLR 2014).

    Shapes: (batch, height, width, channels) or (batch, time, channels) to (batch, channels).

    >>> nn.layer.GlobalAveragePool()(nn.Placeholder([-1, 7, 7, 64])).shape
    (-1, 64)
    """

    def call(self, x: Value) -> Value:
        """Return the means."""
        if len(x.shape) not in (3, 4):
            expected = "(batch, height, width, channels) or (batch, time, channels)"
            raise ValueError(f"expected inputs of shape {expected}, got {x.shape}")
        return x.mean(axis=tuple(range(1, len(x.shape) - 1)))

    def get_config(self) -> dict[str, str | None]:
        """Return the constructor's arguments."""
        return {"name": self.given_name or None}
