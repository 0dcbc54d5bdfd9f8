"""Where the batch is in a shape."""

from nn.arrays import BATCH, Shape


def batch_leads(shape: Shape) -> bool:
    """Whether the first axis, and no other, is the batch."""
    return shape[:1] == (BATCH,) and BATCH not in shape[1:]
