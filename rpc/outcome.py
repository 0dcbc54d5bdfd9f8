"""What has become of a job, as far as whoever drives it knows."""

from __future__ import annotations

from pathlib import Path

from network.controller import Controller

from .attendant import Attendant
from .lines import Lines
from .messages import Verdict
from .restarts import Restarts
from .succession.handover import Handover


class Outcome:
    """What a coordinator can be asked for, while the job runs and afterwards; its attempts follow each other."""

    _com: Controller
    _attendant: Attendant
    _restarts: Restarts
    _lines: Lines
    _handover: Handover

    @property
    def failures(self) -> dict[int, tuple[str, str]]:
        """State and detail of the nodes that did not end well."""
        return self._attendant.failures

    @property
    def connected(self) -> list[int]:
        """The nodes whose agents can be told something."""
        return self._com.available_clients

    @property
    def mourned(self) -> set[int]:
        """The nodes whose agents have ended while we were connected with them: they had no other driver."""
        return set(self._attendant.mourned)

    @property
    def halted(self) -> str:
        """Why somebody has ended the job for good; "" if nobody has."""
        return self._handover.halted

    @property
    def done(self) -> set[int]:
        """The nodes that have ended well."""
        return {node for machine in self._attendant.machines for node, (state, _) in machine.ended.items() if state == "done"}

    @property
    def verdicts(self) -> list[Verdict]:
        """What the failure detector says of nodes that did not end well, attempt after attempt; in each the first causes come
        before what followed from them."""
        return [*self._restarts.verdicts, *self._attendant.lookout.causes]

    @property
    def restarts(self) -> int:
        """How often the job was started again."""
        return self._restarts.count

    @property
    def files(self) -> dict[int, list[Path]]:
        """Paths of the saved files of each node."""
        return self._attendant.collection.files

    @property
    def unsaved(self) -> dict[int, str]:
        """The nodes that have left files which were not all saved, and why."""
        collection = self._attendant.collection
        return {**collection.problems, **collection.missing}

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to agents and job processes so far."""
        return self._com.bytes_sent + self._lines.process_bytes[0]

    @property
    def bytes_read(self) -> int:
        """Bytes read from agents and job processes so far."""
        return self._com.bytes_read + self._lines.process_bytes[1]
