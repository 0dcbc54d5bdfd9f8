"""Check that the packages of Parallel-SGD are those that Python finds under their names, which other files have, too.

A file `network.py` beside a program comes before the package `network`, and an installed project `executor` writes its files
over those of the package `executor`. Each package calls `check` first, so that the file, or the library that is not installed,
and the remedy are told in place of an error about a missing name.

Errors that these packages raise by themselves are known by the same names: `is_answer`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import FrameType, MappingProxyType, ModuleType, TracebackType
from typing import Final

__all__ = [
    "NEEDED",
    "HiddenPackage",
    "NotInstalled",
    "check",
    "is_answer",
    "is_told",
    "mark_told",
    "refusal",
    "refusal_of_module",
    "remedy_of",
    "tell_behind",
    "warn_of",
]

NEEDED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "nn": (),
        "network": (),
        "rpc": ("network",),
        "executor": ("network", "rpc"),
        "parallel_sgd": ("nn", "network", "rpc"),
        "psgd": ("nn", "network", "rpc", "parallel_sgd"),
    }
)
"""The packages of this project, each with those that it imports."""
_OF_OTHERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"nn": ("numpy", "tqdm"), "network": ("numpy", "msgpack")})
"""Libraries that a package that imports none of ours needs, and a Python beside an installation seldom has all."""
_FOLDER: Final = Path(__file__).resolve().parent
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_MARK: Final = b"Parallel-SGD"  # stands in the `__init__.py` of each package
_BETWEEN: Final = frozenset({"contextlib", "functools"})  # what an error passes on its way from ours to ours
_INSTALL_AGAIN: Final = "install Parallel-SGD again, as you did it, with 'pip install --force-reinstall --no-deps ..'"


class HiddenPackage(ImportError):
    """Error about a package of Parallel-SGD that Python does not find, because another file has its name or its place."""


class NotInstalled(ImportError):
    """Error of a program that another Python runs than the one in which Parallel-SGD is installed."""


def check(package: str) -> None:
    """Look where Python finds the packages; warn where another one is hidden than those that `package` imports.

    Args:
        package: name of the package that is being imported.

    Raises:
        HiddenPackage: One that `package` imports is hidden, overwritten or removed; names the file and the remedy.
        NotInstalled: Libraries that the package needs, or those that it imports, are not there.
    """
    needed = dict.fromkeys(other for name in (package, *NEEDED[package]) for other in _OF_OTHERS.get(name, ()))
    lacking = [name for name in needed if name not in sys.modules and importlib.util.find_spec(name) is None]
    for name in needed.keys() - {*lacking}:
        # each of them is a folder: a single file is one of the user's
        found = sys.modules[name].__spec__ if name in sys.modules else importlib.util.find_spec(name)
        if found is not None and found.origin and found.submodule_search_locations is None:
            _tell_alone()
            raise HiddenPackage(
                f"{found.origin} hides the library {name!r}, which Parallel-SGD needs: rename this file, or start the program "
                "where it is not on Python's path.",
                name=name,
            )
    if lacking:
        _tell_alone()
        listed = f"{', '.join(lacking[:-1])} and {lacking[-1]}" if lacking[1:] else lacking[0]
        told = f"{listed}, which Parallel-SGD needs, {'are' if lacking[1:] else 'is'} not installed"
        instead = (
            "take the Python in which Parallel-SGD is installed (in a checkout '. .venv/bin/activate'), or install it in this "
            "one ('pip install .' in the checkout), with all that it needs"
        )
        raise NotInstalled(f"{told} in {sys.executable}: {instead}", name=lacking[0])
    for name in NEEDED if NEEDED[package] else ():
        if name == package:
            continue
        if name in NEEDED[package] and (problem := _problem(name)):
            _tell_alone()
            raise HiddenPackage(problem, name=name)
        warn_of(name)


# `warnings` forgets what it has told whenever a library, such as NumPy at its import, changes the filters
_warned: set[str] = set()


def warn_of(package: str) -> None:
    """Warn, once for all packages that look, where a package that the program may not need is hidden.

    Args:
        package: its name.
    """
    if (problem := _problem(package)) and problem not in _warned:
        warnings.warn(problem, RuntimeWarning, stacklevel=1)
        _warned.add(problem)


def tell_behind(packages: Collection[str]) -> None:
    """Have the traceback of a program that asks for a name of a hidden package be followed by the file and the remedy.

    For packages that the program may have files of its own for: nothing is said before it asks them for a name of ours.

    Args:
        packages: their names.
    """
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if is_told(error) and before is sys.__excepthook__:
            return
        before(kind, error, traceback)
        if problem := remedy_of(error, packages):
            sys.stderr.write(f"{problem}\n")

    sys.excepthook = tell


def remedy_of(error: BaseException, packages: Collection[str] = NEEDED) -> str:
    """Return which file hides a package, and the remedy, where an error is about a name of ours that the package is asked for.

    Args:
        error: the error.
        packages: names of the packages to tell of.

    Returns:
        "" for any other error.
    """
    package, name = _asked(error)
    return _problem(package) if package in packages and _is_ours(package, name) else ""


def is_answer(error: BaseException) -> bool:
    """Return whether an error is an answer of this project: raised by a statement of ours, with only ours in between.

    Its text then says all, and the frames behind the call that is answered say nothing to the user. Never so where Python
    runs in its development mode, `python -X dev`, and never where code of the user, a library or Python itself has raised
    it, or an error that led to it; but an error of the system that led to it, whose reason stands in the text, is told.
    """
    seen: BaseException | None = None if sys.flags.dev_mode else error
    answer = seen is not None
    while answer and seen is not None:
        answer, text = _is_raised_by_us(seen.__traceback__), str(seen)
        seen = _led_to(seen)
        if isinstance(seen, OSError) and seen.strerror and seen.strerror in text and _is_of_the_system(seen.__traceback__):
            # what led to that one is looked at, too: the program may have called us where it handles an error of its own
            seen = _led_to(seen)
    return answer


def _led_to(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def mark_told(stop: KeyboardInterrupt) -> None:
    """Note that what Ctrl-C has stopped, and what follows from that, is said already: a traceback would say no more."""
    vars(stop)[_TOLD] = True


def is_told(error: BaseException) -> bool:
    """Return whether an error is a Ctrl-C that `mark_told` has marked."""
    return bool(vars(error).get(_TOLD))


_TOLD = "told"


def refusal(
    error: AttributeError, package: str, name: str, frame: FrameType, near: Callable[[str, Iterable[str]], str]
) -> AttributeError | ImportError:
    """Return the error for a name that a package lacks, for the statement at which it was asked for it.

    Python puts its own words in place of those of an AttributeError at `from package import name`, but for one of a module that
    is loaded it takes the module.

    Args:
        error: the error for an access to the attribute; what its text has after a semicolon is told in any case.
        package: the package.
        name: the name.
        frame: the frame that asks.
        near: tells which of some names may have been meant.
    """
    import dis  # noqa: PLC0415 - for errors alone

    at_import = frame.f_lasti >= 0 and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"
    if not at_import or name.startswith("_") or f"{package}.{name}" in sys.modules:
        return error
    told = str(error).partition("; ")[2]
    end = f"; {told}" if told else near(name, dir(sys.modules[package]))
    return ImportError(f"cannot import name {name!r} from {package!r}{end}", name=package)


def refusal_of_module(name: str, frame: FrameType, near: Callable[[str, Iterable[str]], str]) -> ModuleNotFoundError | None:
    """Return the error for a submodule that a package lacks, with what the package answers to an access to this attribute.

    For finders that stand behind all others, of which an import asks the last when there is no such module. Whether there is
    one is asked of them, too, as `importlib.util.find_spec` does: then there is no error.

    Args:
        name: full name of the module.
        frame: the frame that calls `find_spec` of the finder.
        near: tells which of some names may have been meant.
    """
    asks = frame.f_back
    # under a Python that has another name for this function, its own words remain
    if asks is None or asks.f_code.co_name != "_find_and_load_unlocked":
        return None
    package, _, child = name.rpartition(".")
    parent = sys.modules[package]
    try:
        getattr(parent, child)
        told = f"; 'from {package} import {child}' takes it, which is no module"
    except (AttributeError, ImportError) as error:
        told = "".join(str(error).partition("; ")[1:])
    if not told:
        from pkgutil import iter_modules  # noqa: PLC0415 - for errors alone

        told = near(child, [each.name for each in iter_modules(parent.__path__) if not each.name.startswith("_")])
    return ModuleNotFoundError(f"No module named {name!r}{told}", name=name)


def _is_raised_by_us(traceback: TracebackType | None) -> bool:
    import dis  # noqa: PLC0415 - for errors alone

    raised = False
    while traceback is not None:
        frame = traceback.tb_frame
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in NEEDED.keys() | _BETWEEN:
            return False
        raised = dis.opname[frame.f_code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS"
        traceback = traceback.tb_next
    return raised


def _is_of_the_system(traceback: TracebackType | None) -> bool:
    """Return whether only code of these packages and of Python stands between us and where an error was raised."""
    known = NEEDED.keys() | sys.stdlib_module_names
    while traceback is not None:
        if str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0] not in known:
            return False
        traceback = traceback.tb_next
    return True


def _tell_alone() -> None:
    """Have a program that does not catch one of these errors end with its sentence and 2, without a traceback, which leads to
    no fault.

    A notebook, a debugger and a test runner show errors by themselves, and an interactive Python goes on.
    """
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not issubclass(kind, (HiddenPackage, NotInstalled)):
            before(kind, error, traceback)
            return
        sys.stderr.write(f"{error}\n")
        if not (sys.flags.interactive or hasattr(sys, "ps1")):
            sys.exit(2)

    sys.excepthook = tell


def _asked(error: BaseException) -> tuple[str, str]:
    """Return the module and its name that the statement of an error has asked for in vain; "" for each that is not known."""
    package = name = ""
    if isinstance(error, ModuleNotFoundError):
        package, _, module = (error.name or "").partition(".")
        name = module.partition(".")[0]
    elif isinstance(error, ImportError):
        import dis  # noqa: PLC0415 - for errors alone

        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        for each in () if traceback is None else dis.get_instructions(traceback.tb_frame.f_code):
            # only Python 3.12 and later have the name in the error
            if traceback is not None and each.offset == traceback.tb_lasti and each.opname == "IMPORT_FROM":
                package, name = error.name or "", each.argval
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        package, name = error.obj.__name__, error.name
    return package, name


def _is_ours(package: str, name: str) -> bool:
    """Return whether a package, as it is on the disk, has a public name or a module of this name."""
    own = _FOLDER / package
    if not name or name.startswith("_") or not own.is_dir():
        return False
    beside = own / f"{name}.py", own / name / "__init__.py"
    return any(each.exists() for each in beside) or f'"{name}"'.encode() in (own / "__init__.py").read_bytes()


def _problem(name: str) -> str:
    """Return what is wrong with a package of this project, and the remedy; "" where it is what Python finds."""
    module = sys.modules.get(name)
    spec = importlib.util.find_spec(name) if module is None else None
    found = getattr(module, "__file__", None) if spec is None else spec.origin if spec.has_location else None
    own = _FOLDER / name / "__init__.py"
    if _FOLDER.is_dir() and not own.exists():
        return (
            f"The package {name!r} of Parallel-SGD has no __init__.py in {own.parent}, as after the removal of another project "
            f"that had installed a package of this name: {_INSTALL_AGAIN}."
        )
    if found is not None and Path(found).resolve() != own.resolve():
        return _hidden(name, found)
    if found is not None and _is_foreign(own):
        others = " and ".join(f"'pip uninstall {other}'" for other in _owners(own)) or "uninstall the other project"
        return (
            f"{own} is not that of Parallel-SGD: another installed project has overwritten the package {name!r}. "
            f"{others[0].upper()}{others[1:]}, then {_INSTALL_AGAIN}."
        )
    return ""


def _hidden(name: str, found: str) -> str:
    path = Path(found).absolute()
    where = path.parent if path.name == "__init__.py" else path
    told = f"{where} hides the package {name!r} of Parallel-SGD, which is in {_FOLDER / name}:"
    if _INSTALLED & {*path.parts}:
        others = " and ".join(f"'pip uninstall {other}'" for other in _owners(path)) or "uninstall it"
        return f"{told} {others}, or give Parallel-SGD an environment of its own."
    kind = "folder" if where != path else "file"
    return f"{told} rename this {kind}, or start the program where it is not on Python's path."


def _is_foreign(path: Path) -> bool:
    """Tell if a file that has the place of a package's `__init__.py` is one of another project."""
    try:
        return _MARK not in path.read_bytes()
    except OSError:  # in an archive, or compiled alone
        return False


def _owners(path: Path) -> list[str]:
    """Return the names of the other installed projects that list this file as theirs."""
    # costs 40 ms, a tenth of the start of a submitter and more of an agent's: only a hidden package needs it
    from importlib import metadata  # noqa: PLC0415

    ending = os.path.join(path.parent.name, path.name)
    return sorted(
        {
            str(each.metadata["Name"])
            for each in metadata.distributions()
            if str(each.metadata["Name"]).lower().replace("_", "-") != "parallel-sgd"
            and any(
                str(file) == ending and Path(str(each.locate_file(file))).resolve() == path.resolve()
                for file in each.files or ()
            )
        }
    )
