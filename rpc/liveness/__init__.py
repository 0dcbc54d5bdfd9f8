"""Liveness of nodes: which are alive, which make progress, and the verdict on those that do not.

A node is declared dead in one of two places, by the limits in `limits`; the words are those of `rpc.verdict`:

at its agent    `process_monitor`, for one process: stuck (`stall_detector` decides, by the signals in `recorder`; or a signal
has
                stopped it), crashed, exited, with its stack dump and the end of its log. `rpc.agent.supervisor` asks it and
                ends the process; `rpc.agent.job_state` ends one that does not start, stop or exit in time.
at the driver   `cluster_monitor`, for all nodes: silent (before all run, too), cut, deadlock. `rpc.submit.event_loop` asks it,
                and passes the loss on; so it does with a connection that has ended, of which `explain` says where it was.

Content and times of a heartbeat stand in `heartbeat`. To add a reason to declare a node dead: a kind of `rpc.verdict.Verdict`,
decided in one of these two places, and its limit in `limits`, with the relation to others.
"""

from . import limits as limits
