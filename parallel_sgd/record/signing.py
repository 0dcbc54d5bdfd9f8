"""Signatures of runs: `model.sig` in the folder of a run says that the owner of a key stands for its manifest and its files.

The format is that of OpenSSF model signing, so the command `model_signing` verifies a signature of ours, and we one of its own.
A signature by a key names the key by the SHA-256 of its public part. That part is kept beside it, as `model.pub`, and is signed
too: with it alone any reader sees that both belong together, but only a key that comes from the signer shows its owner.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rpc.support.files import parsed, publish, read_regular

from ..checkpoint.locate import FOLDER
from .door import Door, RecordError, is_plain
from .files import MANIFEST
from .keys import PublicKey, SigningKey, library
from .run import RunManifest

__all__ = ["PUBLIC_KEY", "SIGNATURE", "Signature", "sign_run", "signature_of"]

SIGNATURE: Final = "model.sig"
PUBLIC_KEY: Final = "model.pub"
#: Files that may appear or change after signing; those that the manifest names are signed all the same.
_LATER: Final = (SIGNATURE, "report.html")
_MOST: Final = 64 << 20  # bytes of a signature


@dataclass(frozen=True)
class Signature:
    """Findings on the signature of a run.

    Args:
        state: `good`; `bad`; `none`, where there is none; `unchecked`, where a key or the library is lacking.
        said: the same, as a sentence.
        key: SHA-256 of the public key that has signed, or is said to have; "" where no key is named.
    """

    state: Literal["good", "bad", "none", "unchecked"]
    said: str
    key: str = ""

    def data(self) -> dict[str, str]:
        """Return it as `--json` tells it."""
        return {"state": self.state, "key": self.key, "said": self.said}


def sign_run(run: Path, key: SigningKey) -> Path:
    """Sign the manifest of a run and all files that it names, in place of an earlier signature; return that of the signature.

    Args:
        run: the folder of the run.
        key: the private key.

    Raises:
        ValueError: The folder has no manifest, or a file differs from its hash in the manifest.
        OSError: A file cannot be read or written.
    """
    manifest = RunManifest.read(run)
    # the key file is signed, too, so that it cannot be exchanged
    hashes: dict[str, str | None] = {**manifest.files, MANIFEST: None, PUBLIC_KEY: None}
    # links are refused before anything is hashed through them
    for name in [*manifest.files, MANIFEST]:
        _regular_below(run, name)
    # before it signs: the signature covers the key, too
    publish(run / PUBLIC_KEY, key.public.decode(), 0o644)
    try:
        text = library("'key'").sign(run, hashes, _unsigned(run, hashes), key.path, key.passphrase)
    except ValueError as error:
        raise ValueError(f"The run {run} cannot be signed: {error}; psgd verify tells more.") from error
    publish(run / SIGNATURE, text, 0o644)
    return run / SIGNATURE


def signature_of(run: Path, manifest: RunManifest, signer: PublicKey | None) -> Signature:
    """Return the findings on the signature of a run.

    Args:
        run: the folder of the run.
        manifest: that of the run, with the files that a signature must cover.
        signer: the key that must have signed; by default the one in the folder.

    Raises:
        ValueError: `signer` is given, and the library that checks is not installed.
    """
    # a demanded signer that cannot be checked is an error, not a remark
    if signer is not None:
        library("--signer")
    if not os.path.lexists(run / SIGNATURE):
        return Signature("none", f"Nobody has signed the run: it has no {SIGNATURE}.")
    try:
        material, names = _contents(read_regular(_regular_below(run, SIGNATURE), _MOST))
    except (OSError, ValueError) as error:
        return Signature("bad", f"{SIGNATURE} is no signature that can be read: {getattr(error, 'strerror', None) or error}.")
    # another kind of signature of the same format
    if "publicKey" not in material:
        said = f"{SIGNATURE} is by a certificate or an identity, not by a key; the command model_signing verifies it."
        return Signature("unchecked" if signer is None else "bad", said)
    hint = material["publicKey"].get("hint")
    # files that the manifest names and the signature does not
    return _checked(run, hint if isinstance(hint, str) else "", {*manifest.files, MANIFEST} - names, names, signer)


def _checked(run: Path, hint: str, uncovered: Collection[str], names: Collection[str], signer: PublicKey | None) -> Signature:
    claimed = f"the key with SHA-256 {hint[:64]}" if hint else "a key that it does not name"
    # a signature of some of the files proves nothing about the others
    if uncovered:
        return Signature("bad", f"{SIGNATURE}, by {claimed}, does not cover {', '.join(sorted(uncovered)[:3])}.", hint)
    key = signer
    try:
        if key is None and os.path.lexists(run / PUBLIC_KEY):
            # without a demanded signer the key beside it shows only that both belong together
            key = PublicKey.read(_regular_below(run, PUBLIC_KEY), PUBLIC_KEY)
        for name in names:
            _regular_below(run, name)
    except (OSError, ValueError) as error:
        return Signature("bad", f"{SIGNATURE}, by {claimed}, does not hold: {error}.", hint)
    if key is None:
        said = f"{SIGNATURE} says that {claimed} has signed; give --signer KEY.pub to have it checked."
        return Signature("unchecked", said, hint)
    # told before the library is asked: the reason is clearer
    if hint and hint != key.fingerprint:
        return Signature("bad", f"The run is signed by {claimed}, not by {key.path.name}, {key.fingerprint}.", hint)
    try:
        openssf = library(SIGNATURE)
    except ValueError as error:
        return Signature("unchecked", f"It was not checked that {claimed} has signed: {error}.", hint)
    try:
        openssf.check(run, run / SIGNATURE, key.path)
    except ValueError as error:
        return Signature("bad", f"{SIGNATURE}, by {claimed}, does not hold: {error}.", hint)
    where = f"{key.path.name}" if signer is not None else f"{PUBLIC_KEY} in its folder; --signer KEY.pub demands one"
    return Signature("good", f"Signed by the key with SHA-256 {key.fingerprint} ({where}).", key.fingerprint)


def _contents(text: str) -> tuple[Mapping[str, Any], set[str]]:
    """Return the signer that a signature names, and the files that it says it covers; nothing of it is checked here."""
    bundle = parsed(json.loads, text)
    try:
        material = dict(bundle["verificationMaterial"])
        payload = parsed(json.loads, base64.b64decode(bundle["dsseEnvelope"]["payload"]).decode("utf-8"))
        names = {str(each["name"]) for each in payload["predicate"]["resources"]}
        if "publicKey" in material:
            material["publicKey"] = dict(material["publicKey"])
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("it is no Sigstore bundle of a model signature") from error
    return material, names


def _unsigned(run: Path, signed: Collection[str]) -> list[Path]:
    """Return the paths that a verifier passes over: files that may come later, and those that lie in the folder and are not
    signed.
    """
    found = {Path(name) for name in _LATER}
    # checkpoints of local workers come into the run when these end, after the signature was written
    found |= {Path(name).parent / FOLDER for name in signed if "/" in name}
    for place, folders, files in os.walk(run):
        here = Path(place).relative_to(run)
        for folder in list(folders):
            inside = f"{(here / folder).as_posix()}/"
            # a folder without any signed file is passed over as a whole
            if not any(name.startswith(inside) for name in signed):
                folders.remove(folder)
                found.add(here / folder)
        found |= {here / file for file in files if (here / file).as_posix() not in signed}
    return sorted(found)


def _regular_below(run: Path, name: object) -> Path:
    """Return the path of a file of a run.

    Raises:
        ValueError: It is no regular file below the folder, or lies behind a link.
    """
    if not isinstance(name, str) or not is_plain(name):
        raise ValueError(f"{str(name)[:80]!r} is no file below the folder of the run")
    try:
        Door(run).open(name, sys.maxsize).close()
    except (OSError, RecordError) as error:
        raise ValueError(f"{name} is no regular file of the run") from error
    return run / name
