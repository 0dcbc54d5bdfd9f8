"""Progress bar of downloads, simulations, calibrations."""

from tqdm import tqdm

__all__ = ["Bar"]


class Bar(tqdm):  # type: ignore[misc]  # tqdm has no annotations
    """A progress bar without the thread that tqdm starts beside it."""

    monitor_interval = 0
