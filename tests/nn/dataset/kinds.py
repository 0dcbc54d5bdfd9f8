"""Finding every public kind of something in a package, so that none escapes its contract."""

import importlib
import inspect
import pkgutil


def public_kinds(base, package):
    """Return the public concrete subclasses of `base` that any module of `package` defines."""
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    kinds, open_ends = set(), [base]
    while open_ends:
        below = open_ends.pop().__subclasses__()
        open_ends += below
        kinds.update(kind for kind in below if kind.__module__.startswith(package.__name__ + "."))
    return {kind for kind in kinds if not kind.__name__.startswith("_") and not inspect.isabstract(kind)}
