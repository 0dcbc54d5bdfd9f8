"""What of a run is not as its manifest says: by file, of a model by epoch and variable, of the settings by option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nn.tensor_files import ModelFileError, parse, read_file
from rpc.files import read_toml

from .job_record import NAME
from .run_manifest import RunManifest, sha256_of
from .weight_hashes import Epochs, chain_of, hash_of, read_hashes


def damages(run: Path, manifest: RunManifest) -> Iterator[str]:
    """What is not as the manifest says, by file, and where it can be told by setting, epoch and variable."""
    epochs = read_hashes(run)
    for name, expected in manifest.files.items():
        path = run / name
        try:
            found = sha256_of(path)
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror}"
            continue
        if found != expected:
            yield f"{name} was changed{_where(path, manifest, epochs)}"
    for (epoch, expected), (_, found) in zip(manifest.chain, chain_of(epochs), strict=False):
        if expected != found:
            yield f"the tables of the weights (WH-*.csv) were changed in epoch {epoch}"
            return


def _where(path: Path, manifest: RunManifest, epochs: Epochs) -> str:
    if path.name == NAME:
        return f": {'; '.join(changed_settings(path, manifest)) or 'in its layout'}"
    if path.name.startswith("MODEL-") and epochs:
        last = max(epochs)
        try:
            arrays, _ = parse(read_file(path), sealed=False)
        except (ModelFileError, OSError) as error:
            return f": {error}"
        known = {name: set(values.values()) for name, values in epochs[last].items()}
        wrong = [name for name, array in arrays.items() if name in known and hash_of(array) not in known[name]]
        return f": after epoch {last} the variable {', '.join(wrong)} was another" if wrong else ", outside of the variables"
    return ""


def changed_settings(path: Path, manifest: RunManifest) -> list[str]:
    """What a job file says otherwise than the one of the run did."""
    try:
        now = read_toml(path)
    except (OSError, ValueError) as error:
        return [str(error)]
    was, is_now = _flat(manifest.settings), _flat(now)
    changed = [name for name in {**was, **is_now} if was.get(name) != is_now.get(name)]
    return [f"'{name}' was {was.get(name)!r}, it is {is_now.get(name)!r}" for name in changed]


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    single = {name: value for name, value in tables.items() if not isinstance(value, dict)}
    return single | {f"{t}.{name}": v for t, values in tables.items() if isinstance(values, dict) for name, v in values.items()}
