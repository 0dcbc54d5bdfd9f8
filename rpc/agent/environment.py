"""What a job process inherits: no key, nothing of the agent's environment that was not meant for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import network

_KEPT = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("PSGD_DATA", "XDG_CACHE_HOME"),
    "OPENBLAS_CORETYPE",  # who fixes the kernels of BLAS wants the same bits everywhere
)
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def project_root() -> str:
    """The folder from which this project's packages are imported."""
    return str(Path(network.__file__).resolve().parent.parent)


def child_environment(environ: Mapping[str, str], blas_threads: int) -> dict[str, str]:
    """The environment of a job process, made from the agent's `environ`."""
    kept = {name: environ[name] for name in _KEPT if name in environ}
    kept.update({name: value for name, value in environ.items() if name.startswith("LC_")})
    kept["PYTHONPATH"] = os.pathsep.join([project_root(), *filter(None, [environ.get("PYTHONPATH")])])
    kept["PYTHONSAFEPATH"] = "1"
    kept.update(dict.fromkeys(_BLAS_THREADS, str(blas_threads)))
    return kept
