"""Calibration of a platform: the measurements, and whether a job lies inside of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from network.names import did_you_mean


@dataclass(frozen=True)
class Calibration:
    """Calibration of a platform by measurements on real agents.

    Args:
        date: when, as 2026-11-29.
        workers: number of workers that were measured together.
        message_bytes: bytes of the largest message that was measured.
        noise: excess of the slowest tenth of small messages over the latency, as a share of it.
        load: mean number of processes that wanted a core in the minute before, per core.
        together: share of a port's bandwidth that is left when all send to one at once; 1: all.
        both_ways: share of the bandwidth of a direction that is left when as much comes back; 1: all.
        system: kernel and congestion control of the measuring machine.
        parameters: those of the model that was timed; 0: none was.
        block_size: samples of a block of that measurement.
        compute: seconds of a block step of it on a node of speed 1.
        step: seconds of a step of a real worker beside block steps, codecs and network, such as its rule, tables, and wake-ups.
        answer: seconds that such a worker takes in a further exchange of a step, as the second one of `Ring`: packets wake it,
            and it sends in answer.
        codec_time: for each codec that was measured its name, and its times in pairs, as `codec_time=` has them.

    Raises:
        ValueError: A figure is negative, or of another kind than a number.
    """

    date: str = ""
    workers: int = 2
    message_bytes: float = 0.0
    noise: float = 0.0
    load: float = 0.0
    together: float = 1.0
    both_ways: float = 1.0
    system: str = ""
    parameters: int = 0
    block_size: int = 0
    compute: float = 0.0
    step: float = 0.0
    answer: float = 0.0
    codec_time: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name in ("date", "system"):
                if not isinstance(value, str):
                    raise ValueError(f"The platform's 'calibration.{name}' must be a text, got {value!r}.")
            # `codec_time_of` checks the times of codecs, as it does those that a user gives
            elif name != "codec_time" and not (_is_number(value) and value >= 0):
                raise ValueError(f"The platform's 'calibration.{name}' must be a number of at least 0, got {value!r}.")
            elif name in ("together", "both_ways") and value > 1:
                raise ValueError(f"The platform's 'calibration.{name}' must be a share of at most 1, got {value!r}.")

    @staticmethod
    def of(content: object) -> Calibration:
        """Read a table of a TOML file.

        Args:
            content: the table.

        Raises:
            ValueError: naming the key, the expectation, and the value that came.
        """
        if not isinstance(content, Mapping):
            raise ValueError(f"The platform's 'calibration' must be a table, got {content!r}.")
        known = [field.name for field in fields(Calibration)]
        for name in content:
            if name not in known:
                near = did_you_mean(name, known).rstrip("?")  # the full stop of the message follows
                raise ValueError(f"The platform's 'calibration' must have keys among {', '.join(known)}, got {name!r}{near}.")
        tables = content.get("codec_time", {})
        if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
            raise ValueError(f"The platform's 'calibration.codec_time' must be tables by name of codec, got {tables!r}.")
        times = tuple((str(name), tuple((str(key), value) for key, value in table.items())) for name, table in tables.items())
        return Calibration(**{**content, "codec_time": times})

    def table(self) -> dict[str, dict[str, float]]:
        """Return the times of the codecs, as `codec_time=` takes them."""
        return {name: dict(pairs) for name, pairs in self.codec_time}

    def computes(self, parameters: int, block_size: int) -> bool:
        """Tell if the seconds of a block step are those of such a job.

        Args:
            parameters: those of its model.
            block_size: samples of a block.
        """
        return self.compute > 0 and (parameters, block_size) == (self.parameters, self.block_size)

    def outside(self, workers: int, parameters: int, block_size: int, codecs: Iterable[str]) -> tuple[str, ...]:
        """Return the properties of a job that lie outside of the measurements, a sentence each.

        Args:
            workers: their number.
            parameters: those of the model.
            block_size: samples of a block.
            codecs: names of the classes of its codecs.
        """
        found = []
        if workers > self.workers:
            found.append(f"{workers} workers, calibrated with {self.workers}")
        # a gradient of float32 numbers in one message
        if 4 * parameters > self.message_bytes:
            found.append(f"messages of up to {4 * parameters:,} bytes, calibrated with up to {self.message_bytes:,.0f}")
        if not self.computes(parameters, block_size):
            told = f"with {self.parameters:,} and {self.block_size}" if self.parameters else "without a model"
            found.append(
                f"a model of {parameters:,} parameters in blocks of {block_size} samples, calibrated {told}: its compute "
                f"was measured on this machine or given"
            )
        # sorted: sets of texts have another order in each process
        lacking = sorted({*codecs} - {name for name, _ in self.codec_time})
        if lacking:
            found.append(f"the time of {', '.join(lacking)}, which was measured on this machine or given")
        return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def calibration_lines(calibration: Calibration, toml_of: Any) -> list[str]:
    """Return the lines of a TOML file.

    Args:
        calibration: the calibration.
        toml_of: writes a value.
    """
    lines = ["", "[calibration]"]
    values = asdict(calibration)
    lines += [f"{name} = {toml_of(value)}" for name, value in values.items() if name != "codec_time"]
    for name, pairs in calibration.codec_time:
        lines += ["", f"[calibration.codec_time.{name}]", *(f"{key} = {toml_of(value)}" for key, value in pairs)]
    return lines
