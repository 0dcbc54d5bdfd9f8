"""Metrics of an agent, as text that Prometheus reads: its slots, jobs, restarts, bytes, signs of life, and lines left out.

Counters begin with the agent. Each figure is told by the object that has it; a new one is a row in `AgentMetrics.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from network import VERSION
from network.clock import Clock

from .checks import python_version
from .event_log import RateLimit
from .process_table import ProcessTable
from .server import RequestHandler
from .supervisor import Supervisor

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """Value with its labels, by name."""

    value: float
    labels: Mapping[str, str] = {}


class Family(NamedTuple):
    """Samples of one name.

    Args:
        name: as Prometheus has it.
        kind: "counter" or "gauge".
        help: some words about it, for people.
        samples: of different labels.
    """

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


def as_text(families: Iterable[Family]) -> str:
    """Write `families` in Prometheus' text format, version 0.0.4."""
    lines = []
    for family in families:
        lines += [f"# HELP {family.name} {_escaped(family.help)}", f"# TYPE {family.name} {family.kind}"]
        for value, labels in family.samples:
            told = ",".join(f'{name}="{_escaped(text, quoted=True)}"' for name, text in labels.items())
            lines.append(f"{family.name}{{{told}}} {_number(value)}" if told else f"{family.name} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str, quoted: bool = False) -> str:
    # backslashes first, or those of the line feeds would be doubled
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quoted else text


def _number(value: float) -> str:
    # repr, not a fixed format: counters of seconds may be large
    return str(value) if isinstance(value, int) else repr(round(value, 6))


class AgentMetrics:
    """Metrics of one agent, which begins now.

    Args:
        slots: how many jobs the agent runs at once.
        processes: the job processes.
        handler: the sessions with submitters.
        rate_limit: the limit of the log's lines.
        clock: measures uptime and ages.
    """

    def __init__(
        self, slots: int, processes: ProcessTable, handler: RequestHandler, rate_limit: RateLimit, clock: Clock
    ) -> None:
        self._slots, self._processes, self._handler = slots, processes, handler
        self._rate_limit, self._clock = rate_limit, clock
        self._began = clock.monotonic()

    def text(self) -> str:
        """Write all metrics as they are now, for Prometheus."""
        processes, now = self._processes, self._clock.monotonic()
        traffic = self._handler.traffic
        ended = [Sample(count, {"outcome": outcome}) for outcome, count in sorted(processes.ended.items())]
        beats = [Sample(now - each.heartbeat_at, _labels(each)) for each in processes]
        silent = [Sample(max(0.0, now - at), _labels(each)) for each in processes if (at := each.sign_at) is not None]
        build = {"version": VERSION, "python": python_version()}
        uptime = now - self._began
        families = [
            Family("psgd_agent_build_info", "gauge", "Release of the agent, and of its Python; always 1.", [Sample(1, build)]),
            Family("psgd_agent_uptime_seconds", "gauge", "Seconds since the agent began.", [Sample(uptime)]),
            Family("psgd_agent_slots", "gauge", "Job processes that the agent runs at once, at most.", [Sample(self._slots)]),
            Family("psgd_agent_slots_taken", "gauge", "Job processes that it runs now.", [Sample(len(processes))]),
            Family(
                "psgd_agent_attempts_total",
                "counter",
                "Job processes that the agent has started: one for each node here and attempt.",
                [Sample(processes.attempts)],
            ),
            Family(
                "psgd_agent_restarts_total",
                "counter",
                "Attempts among them beyond the first of their job.",
                [Sample(processes.restarts)],
            ),
            Family("psgd_agent_jobs_ended_total", "counter", "Attempts that have ended here, by their outcome.", ended),
            Family(
                "psgd_agent_sent_bytes_total",
                "counter",
                "Bytes that the agent has sent to submitters and others with the key; not those of job processes.",
                [Sample(traffic.sent)],
            ),
            Family(
                "psgd_agent_received_bytes_total",
                "counter",
                "Bytes that it has received from submitters and others with the key; not those of job processes.",
                [Sample(traffic.received)],
            ),
            Family(
                "psgd_agent_job_heartbeat_age_seconds",
                "gauge",
                "Seconds since the newest heartbeat of each job process that runs, before the first one since its start.",
                beats,
            ),
            Family(
                "psgd_agent_job_silence_seconds",
                "gauge",
                "Seconds since the newest sign of work of each job process that gives such signs.",
                silent,
            ),
            Family(
                "psgd_agent_log_lines_left_out_total",
                "counter",
                "Lines about visitors turned away that were left out of the log, as there were too many.",
                [Sample(self._rate_limit.left_out)],
            ),
        ]
        return as_text(families)


def _labels(process: Supervisor) -> dict[str, str]:
    return {"job": process.record.job, "node": str(process.record.node)}
