"""Agent: a small unattended process that holds the key and the port, starts job processes and keeps their files."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .event_log import EVENT_LOG as EVENT_LOG
    from .files import KEPT as KEPT
    from .files import RECORD_COPY as RECORD_COPY
    from .standby import ATTEMPT_STATE as ATTEMPT_STATE
    from .standby import MANIFEST as MANIFEST

lazily(
    __name__,
    {
        "event_log": "EVENT_LOG",
        "files": "KEPT RECORD_COPY",
        "standby": "ATTEMPT_STATE MANIFEST",
    },
)
