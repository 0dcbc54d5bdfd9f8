"""Sources of weights: arrays by name, read from files and mappings."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from nn import arguments, tensor_files
from nn.arrays import Array, as_array
from nn.tensor_files import ModelFileError
from nn.transfer import keras_layout, torch_layout

LayoutName: TypeAlias = Literal["nn", "torch", "keras"]
# The format signature of HDF5's specification, level 0A; that of a local file header in ZIP, section 4.3.7 of its
# APPNOTE.
_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
# The file of the weights in a `.keras` archive of Keras 3.
_MEMBER = "model.weights.h5"
_HIDDEN = "vars"
# The file beside the parts of a large model that tells which part has which array, as the libraries of Hugging Face write it.
_INDEX = ".safetensors.index.json"
MOST_ARRAYS = 100_000
"""Arrays of a file of Keras."""


class Source(NamedTuple):
    """Arrays by the names that a layout has.

    Args:
        described: path of the file, or the word for a mapping, for messages.
        layout: the names and axes that it has.
        arrays: by name, in the order of the source.
        shown: the names in the source, where they are others.
        aliases: names of layers, with the path that each has in the source.
    """

    described: str
    layout: LayoutName
    arrays: dict[str, Array]
    shown: Mapping[str, str]
    aliases: Mapping[str, str]

    @property
    def separator(self) -> str:
        """The sign between the name of a layer and that of its array."""
        return "." if self.layout == "torch" else "/"


def read(source: Any, layout: LayoutName | None) -> Source:
    """Return the arrays of a file or a mapping.

    Args:
        source: as in `load_weights`.
        layout: as in `load_weights`.

    Raises:
        ModelFileError: for a file of another kind.
        ValueError: for an unknown layout, and where a file does not tell its own.
        TypeError: for a source of another type, and arrays that hold no real numbers.
    """
    if layout is not None:
        layout = arguments.one_of("load_weights()", "layout", layout, get_args(LayoutName))
    if isinstance(source, Mapping):
        return _of_mapping(source, layout)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            "load_weights() 'source' must be the path of a file or a mapping of arrays by name, such as a state_dict, got "
            f"{arguments.short(source)}"
        )
    path = os.fspath(source)
    data = tensor_files.read_file(path)
    try:
        if data.startswith((_HDF5, _ZIP)):
            if layout not in (None, "keras"):
                raise ValueError(f"load_weights() 'layout' of an HDF5 file or an archive of Keras is 'keras', got {layout!r}")
            arrays, aliases = _of_keras(data)
            return Source(path, "keras", arrays, {}, aliases)
        values, metadata = _of_parts(path, data) if path.endswith(_INDEX) else tensor_files.parse(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path} holds no weights that can be read: {error}") from error
    return _of_tensors(path, values, metadata.get("format", ""), layout)


def _of_parts(path: str, data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays of all files that an index names, which lie beside it, and the metadata of the first.

    Args:
        path: of the index.
        data: its content.
    """
    try:
        index = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the index must be JSON: {error}") from error
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(file, str) for file in places.values()):
        raise ModelFileError("the index must have a 'weight_map', the name of the file that holds each array")
    files = list(dict.fromkeys(places.values()))
    for file in files:
        if os.path.basename(file) != file or not file.endswith(".safetensors"):
            raise ModelFileError(f"the index must name .safetensors files of its own folder, got {file[:80]!r}")
    values: dict[str, Array] = {}
    first: dict[str, str] = {}
    held = 0
    for file in files:
        content = tensor_files.read_file(os.path.join(os.path.dirname(path), file), tensor_files.MAX_FILE - held)
        held += len(content)
        try:
            arrays, metadata = tensor_files.parse(content)
        except ModelFileError as error:
            raise ModelFileError(f"{file}: {error}") from error
        first = first or metadata
        for name, array in arrays.items():
            if places.get(name) != file:
                other = f"of {places[name][:80]!r}" if name in places else "of no file"
                raise ModelFileError(f"{file} has the array {name[:80]!r}, which is {other} by the index")
            values[name] = array
    if missing := [name for name in places if name not in values]:
        raise ModelFileError(f"{places[missing[0]]} must have the array {missing[0][:80]!r}, as the index says; it has none")
    return values, first


def _of_tensors(path: str, values: Mapping[str, Array], form: str, layout: LayoutName | None) -> Source:
    if form.startswith("psgd.") and form not in (tensor_files.WEIGHTS, tensor_files.MODEL):
        raise ModelFileError(f"{path} holds no weights: 'format' is {form[:80]!r}")
    ours = form.startswith("psgd.")
    # The word of the library safetensors for arrays of torch.
    if layout is None and not ours and form != "pt":
        raise ValueError(
            f"{path} does not tell in which layout it holds weights, its 'format' is {form[:80]!r}: say layout='torch' or 'nn'"
        )
    if layout is None:
        layout = "nn" if ours else "torch"
    kept = {name: value for name, value in values.items() if not (ours and name.startswith(arguments.KINDS_OF_STATE))}
    return _named(path, layout, kept)


def _of_mapping(source: Mapping[Any, Any], layout: LayoutName | None) -> Source:
    arrays = {}
    foreign = False
    for name, value in source.items():
        if not isinstance(name, str):
            raise TypeError(f"load_weights() 'source' must have texts as names, got {arguments.short(name)}")
        # By name: torch need not be there, nor be imported.
        foreign |= type(value).__module__.partition(".")[0] == "torch"
        arrays[name] = _as_numbers(name, value)
    return _named("the mapping", layout or ("torch" if foreign else "nn"), arrays)


def _as_numbers(name: str, value: Any) -> Array:
    """Return a value as an array of real numbers; tensors of torch are asked for theirs."""
    if isinstance(value, Mapping) or callable(value):
        raise TypeError(
            f"load_weights() 'source' must hold arrays, got {type(value).__name__} as {name[:80]!r}; of a file with several "
            "parts give the one with the weights"
        )
    if callable(getattr(value, "detach", None)):
        # A tensor with a gradient does not become an array, nor does one in the memory of a GPU.
        value = value.detach().cpu()
        # NumPy has no bfloat16, every number of which is one of float32.
        if "float" in str(value.dtype):
            value = value if str(value.dtype) == "torch.float64" else value.float()
    array = as_array(f"load_weights() array '{name[:80]}'", value)
    if array.dtype.kind not in "iufb":
        raise TypeError(f"load_weights() array '{name[:80]}' must hold real numbers, got {array.dtype}")
    return array


def _named(described: str, layout: LayoutName, arrays: Mapping[str, Array]) -> Source:
    rename: Callable[[str], str] = torch_layout.renamed if layout == "torch" else lambda name: name
    shown = {rename(name): name for name in arrays}
    named = {rename(name): array for name, array in arrays.items()}
    return Source(described, layout, named, shown, _without_wrapper(named) if layout == "torch" else {})


def _without_wrapper(names: Iterable[str]) -> dict[str, str]:
    """Return the paths of layers by their names within a module that holds all of them, such as `module` of DataParallel.

    Args:
        names: of all arrays, with dots.
    """
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
    # The last word is the name of a layer, and no wrapper.
    within = [layer.split(".")[:-1] for layer in layers]
    depth = 0
    while depth < min(map(len, within), default=0) and len({path[depth] for path in within}) == 1:
        depth += 1
    return {layer.split(".", depth)[-1]: layer for layer in layers} if depth else {}


def _of_keras(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the weights of a `.weights.h5` or `.keras` file, and the paths of layers by their names."""
    import io  # noqa: PLC0415 - for files of Keras alone

    if data.startswith(_ZIP):
        data = _unpacked(data)
    try:
        import h5py  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError("load_weights() of a file of Keras needs h5py: pip install h5py") from error
    arrays: dict[str, Array] = {}
    aliases: dict[str, str] = {}
    held = 0
    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            for name, item in _items(file, h5py):
                group, _, last = name.rpartition("/")
                if isinstance(item, h5py.Group):
                    label = item.attrs.get("name")
                    # Beside its numbered path a group of variables has the name of its layer.
                    if last == _HIDDEN and group and isinstance(label, str):
                        aliases.setdefault(label, group)
                elif not keras_layout.is_unused(name):
                    # Of all together: an array may be compressed, and claim more than the file has.
                    held += item.size * item.dtype.itemsize
                    if held > tensor_files.MAX_FILE:
                        raise ModelFileError(f"its arrays must have at most {tensor_files.MAX_FILE} bytes, they have {held}")
                    arrays[name] = _as_numbers(name, item[()])
    except ModelFileError:
        raise
    # h5py raises all of them for damaged files: by the place of the damage an address, a length, a type or a name is wrong.
    except (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ModelFileError(f"the file of Keras is damaged: {error}") from error
    if not arrays:
        raise ModelFileError("it holds no arrays as Keras 3 writes them (save_weights, save)")
    # A file lists names by the alphabet, 10 before 2.
    return {name: arrays[name] for name in sorted(arrays, key=keras_layout.in_order)}, aliases


def _unpacked(data: bytes) -> bytes:
    """Return the HDF5 file in an archive of Keras."""
    import io  # noqa: PLC0415 - for archives of Keras alone
    import zipfile  # noqa: PLC0415

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if _MEMBER not in archive.namelist():
                raise ModelFileError(
                    f"it is an archive without '{_MEMBER}', so none of Keras 3; a file of torch (.pt) is a pickle, which is "
                    "never read: load it there and give its state_dict(); of .npz files give numpy.load(path)"
                )
            size = archive.getinfo(_MEMBER).file_size
            if size > tensor_files.MAX_FILE:
                raise ModelFileError(f"'{_MEMBER}' must have at most {tensor_files.MAX_FILE} bytes, it has {size}")
            return archive.read(_MEMBER)
    # RuntimeError for an encrypted archive, NotImplementedError for a compression that Python does not have.
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ModelFileError(f"the archive is damaged: {error}") from error


def _items(group: Any, h5py: Any, begin: str = "") -> Iterator[tuple[str, Any]]:
    """Yield groups and data sets of a file by path; links to other files, which a file may hold, are not followed."""
    todo = [(begin, group)]
    seen = 0
    while todo:
        path, found = todo.pop()
        for name in found:
            if not isinstance(found.get(name, getlink=True), h5py.HardLink):
                raise ModelFileError(f"'{path}{name}' is a link, which files of Keras do not hold")
            item = found[name]
            seen += 1
            if seen > MOST_ARRAYS:
                raise ModelFileError(f"it must hold at most {MOST_ARRAYS} arrays and groups")
            if isinstance(item, h5py.Dataset):
                _check_dataset(f"{path}{name}", item)
            elif isinstance(item, h5py.Group):
                todo.append((f"{path}{name}/", item))
            else:
                raise ModelFileError(f"'{path}{name}' must be a group or an array, it is a {type(item).__name__}")
            yield f"{path}{name}", item


def _check_dataset(name: str, item: Any) -> None:
    """Refuse arrays that lie in other files, and those of other types."""
    if item.external or item.is_virtual:
        raise ModelFileError(f"'{name[:80]}' lies in another file, which files of Keras do not do")
    if item.shape is None or item.dtype.kind not in "iufb":
        raise ModelFileError(f"'{name[:80]}' must hold real numbers, got {item.dtype}")
