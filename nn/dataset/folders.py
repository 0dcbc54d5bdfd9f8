"""Data sets of folders: a folder for each class, with images or texts in it."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, get_args

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.dataset.files import find_folder
from nn.dataset.image_files import SUFFIXES, ColorMode, fitted, read_image
from nn.dataset.interface import Arrays, DrawingDataset, SplitKind, check_fraction, check_split, draw
from nn.dataset.plan.kinds import Label
from nn.dataset.plan.plan import Plan
from nn.dataset.plan.text import Output, Split, Standard, Text
from nn.resampling import Interpolation

__all__ = ["ImageFolder", "TextFolder"]

_MOST_BYTES = 4 << 30  # of all images

Files = list[tuple[Path, int]]
"""Files with the numbers of their classes."""


class _Folders(DrawingDataset, configured=True):
    """Common part of data sets of a folder that has a folder for each class."""

    suffixes: ClassVar[tuple[str, ...]]
    """Endings of the files, in lower case."""

    def _settle(
        self,
        directory: str | os.PathLike[str],
        test_directory: str | os.PathLike[str] | None,
        class_names: Sequence[str] | None,
        draw_by: tuple[float, int, SplitKind],
    ) -> None:
        """Take the arguments that both kinds have in common.

        Args:
            directory: folder of the classes.
            test_directory: that of the samples to evaluate on.
            class_names: folders that are classes, in the order of their numbers.
            draw_by: test fraction, seed and split.
        """
        self.directory = arguments.path(self, "directory", directory, "a folder")
        self.test_directory = (
            None if test_directory is None else arguments.path(self, "test_directory", test_directory, "a folder")
        )
        name = type(self).__name__
        names = None if class_names is None else arguments.sequence(self, "class_names", class_names, "names of folders")
        if names is not None and not all(isinstance(each, str) for each in names):
            raise TypeError(f"{name} 'class_names' must be a list of names of folders, got {arguments.short(class_names)}")
        if names is not None and (not names or len(set(names)) < len(names)):
            raise ValueError(f"{name} 'class_names' must be different names of folders, got {names}")
        self.class_names = None if names is None else [str(each) for each in names]
        self.test_fraction = check_fraction(self, draw_by[0])
        self.seed = arguments.integer(self, "seed", draw_by[1], minimum=0)
        self.split = check_split(self, draw_by[2])

    @cached_property
    def classes(self) -> list[str]:
        """The names of the classes, which are those of their folders, by their numbers."""
        root = find_folder(self.directory, self)
        names = _names(root, self)
        if self.class_names is None:
            if not names:
                raise ValueError(f"{type(self).__name__}: '{root}' must have a folder for each class, it has none")
            return names
        missing = [name for name in self.class_names if name not in names]
        if missing:
            raise ValueError(
                f"{type(self).__name__} 'class_names' must be folders of '{root}', {', '.join(names) or 'none'}, got "
                f"{missing[0]!r}{arguments.did_you_mean(missing[0], names)}"
            )
        return self.class_names

    def _check_test_classes(self) -> None:
        """Raise ValueError where the folder of the samples to evaluate on has a class that would be left out unsaid."""
        if self.class_names is not None or self.test_directory is None:
            return
        root = find_folder(self.test_directory, self)
        if more := [name for name in _names(root, self) if name not in self.classes]:
            raise ValueError(
                f"{type(self).__name__}: '{root}' must have folders of the classes of '{self.directory}', "
                f"{', '.join(self.classes)}, got {more[0]!r}; 'class_names' leaves others out"
            )

    def source_of(self, part: str) -> str:
        return self.test_directory if part.startswith("test") and self.test_directory is not None else self.directory

    def _parts(self) -> tuple[Files, Files]:
        """Return the files to train and to evaluate on, by class and name."""
        files = self._files(self.directory)
        if self.test_directory is not None:
            self._check_test_classes()
            return files, self._files(self.test_directory)
        numbers = np.array([number for _, number in files])
        self._drawn = draw(numbers, self.test_fraction, self.seed, self.split)
        train, test = self._drawn
        return [files[row] for row in train], [files[row] for row in test]

    def _files(self, directory: str) -> Files:
        root, name = find_folder(directory, self), type(self).__name__
        found: Files = []
        for number, kind in enumerate(self.classes):
            folder = root / kind
            # Also in folders within; by name, since each file system has an order of its own.
            within = [path for path in (folder.rglob("*") if folder.is_dir() else ()) if self._counts(path, folder)]
            if not within:
                raise ValueError(f"{name}: '{folder}' must hold files that end in {', '.join(self.suffixes)}, it has none")
            found += [(path, number) for path in sorted(within, key=lambda path: path.relative_to(folder).parts)]
        return found

    def _counts(self, path: Path, folder: Path) -> bool:
        """Return whether a path is a file of a class; raise ValueError for a link that leads nowhere."""
        # Hidden folders hold copies that tools keep, such as .ipynb_checkpoints.
        if path.suffix.lower() not in self.suffixes or any(name.startswith(".") for name in path.relative_to(folder).parts):
            return False
        if path.is_symlink() and not path.exists():
            raise ValueError(
                f"{type(self).__name__}: the link '{path}' must lead to a file, '{os.readlink(path)}' is not there"
            )
        return path.is_file()

    @abstractmethod
    def load(self, download: bool = True) -> Arrays:
        """Return the samples of all files and the numbers of their classes."""


def _names(root: Path, owner: object) -> list[str]:
    """Return the names of the folders of classes, sorted; hidden ones are those of tools.

    Args:
        root: the folder that has them.
        owner: the data set, for the error.

    Raises:
        ValueError: for a name of bytes that are no UTF-8: names travel with the model, as text.
    """
    names = sorted(each.name for each in root.iterdir() if each.is_dir() and not each.name.startswith("."))
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{type(owner).__name__}: names of folders in '{root}' must be text in UTF-8, got {os.fsencode(name)!r}"
            ) from error
    return names


class ImageFolder(_Folders, configured=True):
    """Images in folders, one folder for each class.

    Samples are uint8 ``(n, height, width, channels)``, labels int64 ``(n,)``, the number of the folder by name; `classes`
    lists the names. Files end in .npy (uint8), .pgm or .ppm, which NumPy reads, or .png, .jpg, .jpeg, .bmp, .gif or .webp,
    which take the extra ``images`` (Pillow); others do not count. They stand in the folder of a class or in folders within it,
    of which hidden ones and links are left out. Images of a JPEG may differ by a bit between versions of its decoder; checksums
    of rows tell. Alpha is left out, not painted over, values of two bytes lose the lower one, animations give their first
    image, and images are not turned as their EXIF data says.

    A job keeps the names of the classes with the model; ``ImageCls(flatten=False)`` divides by 255. A relative path counts from
    the working directory, else from ``$PSGD_DATA``.

    Args:
        directory: the folder of the folders.
        image_size: height and width to which images are brought, by the rules of the layer `Resizing`, rounded to whole
            numbers; None for images that have one size.
        color_mode: 'rgb', 'grayscale' or 'rgba', to which other images are converted.
        class_names: the folders that are classes, in the order of their numbers; default: all, by name.
        test_directory: a folder of folders of the same names, to evaluate on; default: a share of `directory` is set aside.
        test_fraction: that share.
        seed: of the draw of that share.
        split: which samples are set aside: "random", "stratified" (of each class its share), or "last".
        interpolation: 'bilinear' or 'nearest'.
        crop_to_aspect_ratio: whether images are cut to the proportions of `image_size` first, in place of being stretched.

    Raises:
        TypeError, ValueError: for other arguments. `load` raises FileNotFoundError for a folder that is missing, ValueError
            for a class without files, a damaged file, a link that leads nowhere, images of several sizes without
            `image_size`, and more than 4 GiB of them, and ImportError for a file that needs Pillow.

    >>> for kind, grey in (("dark", 20), ("light", 200)):
    ...     Path("shades", kind).mkdir(parents=True)
    ...     for number in range(3):
    ...         np.save(Path("shades", kind, f"{number}.npy"), np.full((6, 8), grey + number, np.uint8))
    >>> data = nn.dataset.ImageFolder("shades", (4, 4), "grayscale", test_fraction=0.34, split="stratified")
    >>> data.classes, data.load()[0].shape, data.load()[1].tolist()
    (['dark', 'light'], (4, 4, 4, 1), [0, 0, 1, 1])
    """

    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES

    def __init__(
        self,
        directory: str | os.PathLike[str],
        image_size: Sequence[int] | None = None,
        color_mode: ColorMode = "rgb",
        class_names: Sequence[str] | None = None,
        test_directory: str | os.PathLike[str] | None = None,
        test_fraction: float = 0.2,
        seed: int = 0,
        split: SplitKind = "random",
        interpolation: Interpolation = "bilinear",
        crop_to_aspect_ratio: bool = False,
    ) -> None:
        self._settle(directory, test_directory, class_names, (test_fraction, seed, split))
        self.image_size = None if image_size is None else list(arguments.shape(self, "image_size", image_size))
        if self.image_size is not None and len(self.image_size) != 2:
            raise ValueError(f"ImageFolder 'image_size' must be height and width, got {image_size!r}")
        self.color_mode = arguments.one_of(self, "color_mode", color_mode, get_args(ColorMode))
        self.interpolation = arguments.one_of(self, "interpolation", interpolation, get_args(Interpolation))
        self.crop_to_aspect_ratio = arguments.flag(self, "crop_to_aspect_ratio", crop_to_aspect_ratio)

    @property
    def plan(self) -> Plan:
        """A plan of arrays, with the names of the classes."""
        return Plan(labels=(Label("class", classes=tuple(self.classes), dtype="int64"),))

    def load(self, download: bool = True) -> Arrays:
        train, test = self._parts()
        # The first image tells the size of all, so that too many are refused before memory is taken for them.
        shape = self._shape(train[0][0])
        size = (len(train) + len(test)) * int(np.prod(shape))
        if size > _MOST_BYTES:
            raise ValueError(
                f"ImageFolder must hold at most {_MOST_BYTES} bytes of images, got {size}; give a smaller 'image_size'"
            )
        return *self._images(train, shape), *self._images(test, shape)

    def _shape(self, first: Path) -> tuple[int, int, int]:
        image = read_image(first, self.color_mode)
        height, width = image.shape[:2] if self.image_size is None else self.image_size
        return height, width, image.shape[2]

    def _images(self, files: Files, shape: tuple[int, int, int]) -> tuple[Array, Array]:
        images = np.empty((len(files), *shape), np.uint8)
        for target, (path, _) in zip(images, files, strict=True):
            image = read_image(path, self.color_mode)
            if self.image_size is None and image.shape != shape:
                raise ValueError(
                    f"ImageFolder needs images of one size, {shape[0]} x {shape[1]}, '{path}' has {image.shape[0]} x "
                    f"{image.shape[1]}; 'image_size' brings them to one"
                )
            target[:] = fitted(image, shape[:2], self.interpolation, crop=self.crop_to_aspect_ratio)
        return images, np.array([number for _, number in files], np.int64)


class TextFolder(_Folders, configured=True):
    """Texts in folders, one folder for each class, as the ids of their words or as counts of them.

    Each file that ends in .txt, in the folder of a class or in folders within it that are not hidden, is a text in UTF-8.
    Words are those of the texts to train on, the most frequent one first. Ids are int32 ``(n, length)``: 0 for padding, which
    ``Embedding(.., mask_zero=True)`` leaves out, 1 for a word that is not known; counts are float32 ``(n, words)``. Labels are
    int64 ``(n,)``, the number of the folder by name; `classes` lists the names.

    The plan of the data set has the words: a model of a job takes texts, ``model.predict(["a good film"])``, as rows do,
    ``[{"text": "a good film"}]``, and answers by the names of the classes. A relative path counts from the working directory,
    else from ``$PSGD_DATA``.

    Args:
        directory: the folder of the folders.
        max_tokens: most ids, those of padding and of unknown words included; default: no limit.
        length: ids of a text; longer texts lose their end. Default: those of the longest text to train on.
        output_mode: 'int' for ids, 'multi_hot', 'count' or 'tf_idf', as in `TextVectorization`.
        standardize: treatment of a text before it is split, as in `TextVectorization`.
        word_split: at 'whitespace', into each 'character', or 'none' for texts that are one word each.
        ngrams: how many words in a row are a word, too, up to this number.
        class_names: the folders that are classes, in the order of their numbers; default: all, by name.
        test_directory: a folder of folders of the same names, to evaluate on; default: a share of `directory` is set aside.
        test_fraction: that share.
        seed: of the draw of that share.
        split: which samples are set aside: "random", "stratified" (of each class its share), or "last".

    Raises:
        TypeError, ValueError: for other arguments. `load` raises FileNotFoundError for a folder that is missing, ValueError
            for a class without files, for a file that is no UTF-8, and for files that have changed since they were first read.

    >>> for kind, text in (("good", "what a film"), ("bad", "what a bore")):
    ...     Path("films", kind).mkdir(parents=True)
    ...     for number in range(2):
    ...         written = Path("films", kind, f"{number}.txt").write_text(text)
    >>> data = nn.dataset.TextFolder("films", test_fraction=0.5, split="stratified")
    >>> data.classes, data.load()[0].tolist(), data.words
    (['bad', 'good'], [[2, 3, 5], [2, 3, 4]], ['', '[UNK]', 'what', 'a', 'film', 'bore'])
    """

    suffixes: ClassVar[tuple[str, ...]] = (".txt",)

    def __init__(
        self,
        directory: str | os.PathLike[str],
        max_tokens: int | None = None,
        length: int | None = None,
        output_mode: Output = "int",
        standardize: Standard = "lower_and_strip_punctuation",
        word_split: Split = "whitespace",
        ngrams: int = 1,
        class_names: Sequence[str] | None = None,
        test_directory: str | os.PathLike[str] | None = None,
        test_fraction: float = 0.2,
        seed: int = 0,
        split: SplitKind = "random",
    ) -> None:
        self._settle(directory, test_directory, class_names, (test_fraction, seed, split))
        self.max_tokens = None if max_tokens is None else arguments.integer(self, "max_tokens", max_tokens, minimum=1)
        self.length = None if length is None else arguments.integer(self, "length", length, minimum=1)
        self.output_mode = arguments.one_of(self, "output_mode", output_mode, get_args(Output))
        self.standardize = arguments.one_of(self, "standardize", standardize, get_args(Standard))
        self.word_split = arguments.one_of(self, "word_split", word_split, get_args(Split))
        self.ngrams = arguments.integer(self, "ngrams", ngrams, minimum=1)
        self._digest: bytes | None = None

    @property
    def words(self) -> list[str]:
        """The words by their ids; reads the files."""
        return self._kind.words

    @cached_property
    def plan(self) -> Plan:
        """The plan of a column of texts and one of classes; reads the files."""
        label = Label("class", classes=tuple(self.classes), dtype="int64")
        # Filled, as a text that is missing is one without words.
        return Plan((self._kind,), (label,), missing="fill")

    @cached_property
    def _kind(self) -> Text:
        return self._words_of(self._texts()[0])

    def load(self, download: bool = True) -> Arrays:
        # Read once, also where the words are not known yet.
        (train, test), numbers = self._texts(), [np.array([number for _, number in files], np.int64) for files in self._parts()]
        if "_kind" not in vars(self):
            self._keep(_kind=self._words_of(train))
        return self._kind.numbers(train), numbers[0], self._kind.numbers(test), numbers[1]

    def _words_of(self, texts: Sequence[str]) -> Text:
        kind = Text(
            "text",
            length=self.length,
            standardize=self.standardize,
            split=self.word_split,
            ngrams=self.ngrams,
            output=self.output_mode,
        )
        return kind.adapted(texts, self.max_tokens)

    def _texts(self) -> tuple[list[str], list[str]]:
        """Return the texts to train and to evaluate on; raise ValueError where they are not those of before."""
        train, test = ([self._read(path) for path, _ in files] for files in self._parts())
        digest = hashlib.sha256()
        for text in (*train, *test):
            # With the lengths, so that the same letters divided otherwise among the files differ.
            digest.update(f"{len(text)}\n{text}".encode())
        if self._digest is not None and digest.digest() != self._digest:
            raise ValueError(
                f"TextFolder: files of '{self.directory}' have changed since they were first read; make another one"
            )
        self._digest = digest.digest()
        return train, test

    def _read(self, path: Path) -> str:
        try:
            # Without the mark of order that some programs write in front, which is no part of the first word.
            return path.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"TextFolder: '{path}' must be text in UTF-8: {error}") from error
