"""The manifest of a run that has ended: the hash of each file that it has left, its settings, and the chain of its epochs.

It stands beside `job.toml` in the folder of the run, and is what `psgd verify` compares with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rpc.files import parsed, publish, read_text, read_toml
from rpc.logs import SUBMIT_LOGGER, get_logger

from .job_record import MODEL_FILE, NAME
from .weight_hashes import chain_of, read_hashes

_log = get_logger(SUBMIT_LOGGER)
MANIFEST: Final = "manifest.json"
FORMAT: Final = "psgd.manifest/1"
_CHUNK: Final = 1 << 20
_MOST: Final = 64 << 20  # bytes of a manifest


@dataclass(frozen=True)
class RunManifest:
    """`files` by their path below the run's folder, `settings` the content of `job.toml`, `chain` as `chain_of` makes it."""

    job: str
    files: Mapping[str, str]
    settings: Mapping[str, Any]
    chain: list[list[Any]]
    format: str = FORMAT

    @classmethod
    def read(cls, run: Path) -> RunManifest:
        """That of the run in a folder.

        Raises: ValueError naming the file and what is wrong with it.
        """
        path = run / MANIFEST
        try:
            made = cls(**parsed(json.loads, read_text(path, _MOST)))
        except FileNotFoundError:
            raise ValueError(f"There is no {path}: the run has not ended well, or not yet.") from None
        except OSError as error:
            raise ValueError(f"The manifest {path} cannot be read: {error.strerror or error}.") from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"The manifest {path} is half written or damaged: {error}.") from error
        if made.format != FORMAT:
            raise ValueError(f"The manifest {path} is of another version: {made.format!r}, this release reads {FORMAT!r}.")
        kinds = ((made.job, str), (made.files, dict), (made.settings, dict), (made.chain, list))
        if not all(isinstance(value, kind) for value, kind in kinds):
            raise ValueError(f"The manifest {path} is damaged: it must hold a job, files, settings and a chain.")
        return made


def write_run_manifest(run: Path, job: str, files: Mapping[int, Iterable[Path]]) -> None:
    """Write that of a run whose `files` are at home; the run has its result, so a full disk is a warning."""
    try:
        _write(run, job, files)
    except OSError as error:
        _log.warning("The manifest of the run cannot be written: %s.", error.strerror or error)


def _write(run: Path, job: str, files: Mapping[int, Iterable[Path]]) -> None:
    mine = [run / NAME, run / MODEL_FILE]
    everything = [*mine, *(path for paths in files.values() for path in paths)]
    root = run.resolve()
    below = (path for path in map(Path.resolve, everything) if path.is_relative_to(root))
    hashes = {str(path.relative_to(root)): sha256_of(path) for path in below}
    manifest = RunManifest(job, hashes, read_toml(run / NAME), chain_of(read_hashes(run)))
    publish(run / MANIFEST, json.dumps(asdict(manifest), indent=1) + "\n", 0o644)


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()
