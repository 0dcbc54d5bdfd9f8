"""Guard of the work that follows the last batch and must not take the result away: an error in it is a warning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rpc.support.logs import SUBMIT_LOGGER, get_logger

__all__ = ["spared"]

_MOST_TEXT = 500
_log = get_logger(SUBMIT_LOGGER)


@contextmanager
def spared(what: str, remarks: list[str] | None = None) -> Iterator[None]:
    """Turn an error in the block into a warning, because training is over and has its result.

    Args:
        what: the work of the block, as the subject of a sentence, such as "The manifest of the run".
        remarks: gets the sentence, too, for a reader on another node.
    """
    try:
        yield
    # not KeyboardInterrupt: the user may still stop what follows
    except Exception as error:  # noqa: BLE001  the result counts more than any error
        said = f"{what} failed ({type(error).__name__}: {str(error)[:_MOST_TEXT]}); training has its result."
        if remarks is not None:
            remarks.append(said)
        # the traceback goes to the log, the sentence to the user
        _log.warning("%s", said, exc_info=error)
