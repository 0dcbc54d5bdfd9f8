"""Keys that sign runs, and the library that signs with them, which is an optional extra."""

from __future__ import annotations

import getpass
import hashlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rpc.support.files import read_regular

__all__ = ["PublicKey", "SigningKey", "library"]

_MOST: Final = 1 << 16  # bytes of a key
_CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")
_WANTED: Final = "an elliptic-curve key on P-256, P-384 or P-521 as PEM"
_REMEDY: Final = "pip install 'model-signing<2' pyOpenSSL"


@dataclass(frozen=True)
class PublicKey:
    """Public part of a key pair, in a file.

    Args:
        path: the file.
        fingerprint: SHA-256 of the key as PEM, which is the hash of the file as OpenSSL writes it.
    """

    path: Path
    fingerprint: str

    @classmethod
    def read(cls, path: Path, name: str) -> PublicKey:
        """Return the key in a file.

        Args:
            path: the file.
            name: name of the key in an error: an option or a file.

        Raises:
            ValueError: The file cannot be read or holds no such key.
        """
        content = _read_key(path, name)
        try:
            # parsers raise errors of their own kinds for what is no key
            key: object = serialization.load_pem_public_key(content)
        except Exception as error:
            # the most common mistake, told by name
            meant = ": this is a private key" if b"PRIVATE KEY" in content else ""
            raise ValueError(f"{name} must be a public key, {_WANTED}, got {path}{meant}") from error
        return cls(path, _fingerprint(_checked_curve(key, path, name)))


@dataclass(frozen=True)
class SigningKey:
    """Private key in a file.

    Args:
        path: the file.
        public: the public part, as PEM.
        passphrase: of the file, None where there is none.
    """

    path: Path
    public: bytes
    passphrase: bytes | None = field(default=None, repr=False)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the public part; see `PublicKey`."""
        return hashlib.sha256(self.public).hexdigest()

    @classmethod
    def read(cls, path: Path, name: str) -> SigningKey:
        """Return the key in a file; the terminal is asked for a passphrase where the file has one.

        Args:
            path: the file.
            name: name of the key in an error.

        Raises:
            ValueError: The library is not installed; the file cannot be read or holds no such key; a passphrase is wrong, or
                there is no terminal to ask for it.
        """
        library(name)
        content = _read_key(path, name)
        passphrase = None
        # asked before the key is parsed: parsing without it would fail with no word about passphrases
        if b"ENCRYPTED" in content:
            if not sys.stdin.isatty():
                raise ValueError(f"{name} needs a terminal that can be asked for the passphrase of {path}, and there is none")
            passphrase = getpass.getpass(f"Passphrase of {path}: ").encode()
        try:
            key: object = serialization.load_pem_private_key(content, passphrase)
        except Exception as error:
            # of an encrypted file this is nearly always the cause
            if passphrase is not None:
                raise ValueError(f"{name} cannot be read: this is not the passphrase of {path}") from error
            meant = ": this is a public key" if b"PUBLIC KEY" in content else ""
            raise ValueError(f"{name} must be a private key, {_WANTED}, got {path}{meant}") from error
        # the public part goes into the run; the private one stays in its file
        public = key.public_key() if isinstance(key, ec.EllipticCurvePrivateKey) else None
        return cls(path, _pem(_checked_curve(public, path, name)), passphrase)

    def __str__(self) -> str:
        return f"the key with SHA-256 {self.fingerprint}"


def library(name: str) -> Any:
    """Return the module that calls the library; `name` is the option in the message. Raises: ValueError where that is not
    installed.
    """
    try:
        from . import openssf  # noqa: PLC0415 - an optional extra, with 400 modules
    except ImportError as error:
        raise ValueError(f"{name} needs the library model-signing, which is not installed: {_REMEDY}") from error
    return openssf


def _read_key(path: Path, name: str) -> bytes:
    try:
        return read_regular(path, _MOST).encode()
    except OSError as error:
        raise ValueError(f"{name} must be a key that can be read, got {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"{name} must be {_WANTED}, got {path}: {error}") from error


def _checked_curve(key: object, path: Path, name: str) -> ec.EllipticCurvePublicKey:
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return key
    raise ValueError(f"{name} must be {_WANTED}, got one of another kind in {path}")


def _pem(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    return hashlib.sha256(_pem(key)).hexdigest()
