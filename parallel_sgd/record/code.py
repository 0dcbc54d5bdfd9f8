"""Judgement on the code that the job of a folder may run here: named parts that ship run always, all other code by its hash or
by the user's word.

A folder may come from a stranger, and `psgd run` and `psgd verify` import the code that its `job.toml` names. Before the first
line of a file runs, the file is told with its SHA-256. A file that lies in the folder, or that the manifest does not list by
its hash, runs only with `--allow-code`; with `--no-code` none does. Of a `job.toml` that nodes have told nothing but shipped
parts is ever imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ..options.names import CodeRefused, files_of
from .hashes import sha256_of
from .job_file import JobFile
from .paths import as_seen
from .run import RunManifest

__all__ = ["CodeJudge"]


class CodeJudge:
    """Judge of each module and file that the texts of a job file name, before it is imported (`names.guarded`).

    Args:
        file: the job file.
        given: the options that the user has given in place of those of the file; code that they name is the user's own.
        flags: the name of each option by its flag, such as `codec` by `--codec`.
        allow: whether the user allows all code (`--allow-code`).
        refuse: whether the user refuses all (`--no-code`).
    """

    def __init__(
        self, file: JobFile, given: Collection[str], flags: Mapping[str, str], *, allow: bool = False, refuse: bool = False
    ) -> None:
        self._file, self._given, self._flags = file, given, flags
        self._allow, self._refuse = allow, refuse
        self._known: set[str] | None = None
        self._told: set[str] = set()

    def __call__(self, place: str, option: str) -> None:
        """Check that a module or a file may be imported.

        Args:
            place: the module or the file.
            option: the flag of the option that names it.

        Raises:
            CodeRefused: It may not; the message names the job file, the key, the file and its hash.
        """
        self.judge(place, option, lambda: files_of(place))

    def judge(self, place: str, option: str, files_at: Callable[[], list[Path]]) -> None:
        """Check that the files of a place may run, as calling the judge does. Raises: CodeRefused.

        Args:
            place: the module or the file.
            option: the flag of the option that names it.
            files_at: lists the files that would run.
        """
        name = self._flags.get(option, option.strip("-").replace("-", "_"))
        # code that the user names now is the user's own
        if name in self._given:
            return
        path = as_seen(self._file.path)
        # nodes may have told any name: nothing of theirs is imported at all (RUN-6)
        if self._file.fetched:
            raise CodeRefused(
                f"The job file {path} has no {name!r}: it was code of one's own, {place[:80]!r}, as its nodes tell. "
                f"Give {option}, or run the program again."
            )
        # found without an import: a package runs its code when it is imported
        files = files_at()
        hashes = {str(file): _hash(file) for file in files}
        shown = ", ".join(f"{file} (SHA-256 {found or 'of nothing: it cannot be read'})" for file, found in hashes.items())
        what = f"The job file {path} needs code for {name!r}: {shown or f'the module {place[:80]!r}'}"
        # `--no-code` before `--allow-code`: the stricter word counts
        if self._refuse:
            raise CodeRefused(f"{what}. --no-code refuses it.")
        if not self._allow:
            folder = self._file.path.parent.resolve()
            # in the folder it came with the run, and its author is unknown
            if any(Path(file).resolve().is_relative_to(folder) for file in hashes):
                raise CodeRefused(f"{what}, which lies in the folder of the run. Look at it, then give --allow-code.")
            # unchanged since the run, by its hash, and not just of the same name
            if not hashes or not set(hashes.values()) <= self._listed():
                raise CodeRefused(f"{what}, which the manifest of the run does not list. Look at it, then give --allow-code.")
        # once for each text: a job may name one file for several options
        if what not in self._told:
            self._told.add(what)
            sys.stderr.write(f"{what}.\n")

    def _listed(self) -> set[str]:
        """Return the hashes of the manifest of the run: of its files, and of the code that its job needed."""
        if self._known is None:
            try:
                manifest = RunManifest.read(self._file.path.parent)
            except ValueError:  # one that has not ended well has none
                self._known = set()
            else:
                code = manifest.settings.get("code")
                listed = code.values() if isinstance(code, dict) else ()
                # empty hashes are of files that could not be read
                self._known = {each for each in (*manifest.files.values(), *listed) if isinstance(each, str) and each}
        return self._known


def _hash(file: Path) -> str:
    try:
        return sha256_of(file.resolve())
    except OSError:
        return ""
