"""What a worker of an elastic job runs: the function, in one process from its first round to its last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from network.values import encode
from rpc.communication import Communication
from rpc.dialing import await_submitter, watch_for_silence
from rpc.executable import AbsExecutable, ReplyPackage
from rpc.monitor import monitor_train_end

from .errors import WorkerRemoved
from .group import using
from .job_group import JobGroup
from .liaison import Liaison
from .words import Here, Returned

ARGUMENTS = "arguments"


class ElasticWorker(AbsExecutable):
    """Meets the other workers, runs the function with their group, and tells the driver what it returned.

    Shipped with it: `function`; `arguments`, a list with those that are code or objects; `watched` and `keep_every`, see
    `JobGroup`. The data among the arguments is requested from the submitter, as {place: value}.
    """

    serves_submitter: ClassVar[bool] = True
    meets_peers: ClassVar[bool] = True

    _data: dict[int, Any] | None = None

    def requests(self) -> Sequence[str]:
        """The arguments."""
        return [ARGUMENTS]

    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        """Take the arguments."""
        self._data = replies[0]
        return []

    def ready(self) -> bool:
        """Whether the arguments are there."""
        return self._data is not None

    def start(self, com: Communication) -> None:
        """Run the function, in round after round."""
        if com.meetings is None:
            raise RuntimeError("An elastic worker runs in a job process, which lets it meet its peers.")
        line = await_submitter(com.controller)
        watch_for_silence(line)
        hooks = com.controller.on_wait, com.controller.on_resume
        com.controller.on_wait = com.controller.on_resume = None  # that the liaison waits shows nothing
        liaison = Liaison(com.controller, line)
        settings = {"watched": self.shipped["watched"], "keep_every": self.shipped["keep_every"]}
        group = JobGroup(com, com.meetings, liaison, *hooks, **settings)
        try:
            liaison.say(Here(com.meetings.place))
            group.join()
            with using(group):
                value = self.shipped["function"](*self._arguments())
            monitor_train_end()
            _check_travels(value, com)
            liaison.say(Returned(value))
            group.leave(farewell=True)
            liaison.await_end()
        except WorkerRemoved as farewell:
            self.logger.warning("%s", farewell)
        finally:
            com.meetings.close()
            group.leave(farewell=False)
            liaison.close()

    def _arguments(self) -> list[Any]:
        arguments = list(self.shipped["arguments"])
        for place, value in (self._data or {}).items():
            arguments[place] = value
        return arguments

    def done(self) -> ReplyPackage:
        """Nothing: the driver has the result already."""
        return ReplyPackage(None)


def _check_travels(value: Any, com: Communication) -> None:
    try:
        encode(value, com.controller.classes)
    except TypeError as error:
        raise TypeError(f"What the function of an elastic job returns must be data: {error}") from None
