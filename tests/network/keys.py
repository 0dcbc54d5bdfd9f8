"""Keys of tests and the files that hold them."""

import base64
from pathlib import Path

from network.keys import Key, Keyring, format_keyring

KEY = Key(bytes(range(32)))
OTHER = Key(bytes(range(32, 64)))


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def line(key: Key) -> str:
    return format_keyring(Keyring((key,)))


def secret_forms(key: Key) -> list[str]:
    """The secret as it might slip into a text: as repr, hex or base64, whole or in part."""
    code = base64.b64encode(key.secret).decode()
    return [repr(key.secret)[2:30], key.secret.hex()[:16], code[:10], code[10:20], code[-12:-2]]
