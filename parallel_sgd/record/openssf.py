"""Calls of the library `model-signing` (OpenSSF model signing), which takes a second to import.

The library of version 1.1 hashes every file of a folder, refuses links, and takes a passphrase as bytes, although it says text.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from model_signing import hashing, signing, verifying

from rpc.support.temporary import TemporaryFolder

__all__ = ["check", "sign"]


def sign(run: Path, hashes: Mapping[str, str | None], ignored: Iterable[Path], key: Path, passphrase: bytes | None) -> str:
    """Return a signature of files of a run, as the text of a Sigstore bundle.

    Args:
        run: the folder of the run.
        hashes: by the path of each file below it, the SHA-256 that it must have, None for any.
        ignored: paths in the folder that verifiers pass over.
        key: a private key on one of the curves P-256, P-384 and P-521, PEM.
        passphrase: of the key.

    Raises:
        ValueError: A file has another SHA-256.
        OSError: A file cannot be read.
    """
    config = _Listed([run / name for name in hashes])
    # what verifiers pass over must be told to the signer, too: it is part of what is signed
    config.set_ignored_paths(paths=ignored, ignore_git_paths=False)
    signer = signing.Config().use_elliptic_key_signer(private_key=key, password=passphrase)
    # away from the run: the library writes its file directly, not whole or not at all
    with TemporaryFolder("sign") as place:
        file = place / "signature"
        signer.set_hashing_config(config).sign(run, file)
        text = file.read_text("utf-8")
    # hashed by the library itself: a file that has changed since the manifest is found here
    for name, found in config.found.items():
        if hashes[name] not in (None, found):
            raise ValueError(f"{name} is not what its manifest says")
    return text


def check(run: Path, signature: Path, key: Path) -> None:
    """Check that a signature is by a key and that each file that it covers is as it was.

    Args:
        run: the folder of the run.
        signature: a Sigstore bundle.
        key: a public key, PEM.

    Raises:
        ValueError: It is not; the message says why.
    """
    # callbacks and pages may lie beside what is signed
    verifier = verifying.Config().use_elliptic_key_verifier(public_key=key).set_ignore_unsigned_files(True)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # where the library warns of formats of its earlier versions
            verifier.verify(run, signature)
    except InvalidSignature:
        raise ValueError("what it says was not written with this key") from None
    except Exception as error:  # the library and its parsers raise all kinds for a malformed bundle
        raise ValueError(" ".join(f"{error or type(error).__name__}".split())) from error


class _Listed(hashing.Config):  # type: ignore[misc]  # the checks are the same where the library is not installed
    """Hashing of chosen files alone; `found` has their SHA-256 by path."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__()
        self._files = files
        self.found: dict[str, str] = {}

    def hash(self, model_path: Path, *, files_to_hash: Iterable[Path] | None = None) -> Any:
        made = super().hash(model_path, files_to_hash=self._files)
        self.found = {each.identifier: each.digest.digest_hex for each in made.resource_descriptors()}
        return made
