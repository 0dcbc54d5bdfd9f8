"""Folders of images and texts as data sets: files, sizes, words, what travels with a model, and what is refused."""

import os
import re
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import nn
from nn.dataset import CharacterText, ImageFolder, TextFolder, pad_sequences
from nn.dataset.image_files import fitted, read_image
from nn.dataset.transforms import ImageCls, Windows
from nn.layer import Dense, Embedding, Flatten, GlobalAveragePool, Resizing
from nn.model import Model, SequentialModel
from parallel_sgd import ParallelSGD, in_process, local_workers
from parallel_sgd.engine.job_executor import samples_at_hand
from tests.nn.graphs import Compiled

DRAW = np.random.default_rng(0)
COLOURS = DRAW.integers(0, 256, (5, 7, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ppm(pixels):
    kind = b"P6" if pixels.ndim == 3 else b"P5"
    return kind + b"\n# made by a test\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


def put(path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        Path(path).write_bytes(content)
    elif isinstance(content, str):
        Path(path).write_text(content, "utf-8")
    else:
        np.save(path, content)
    return Path(path)


def shades(folder="shades", size=(5, 7)):
    for kind, low in (("dark", 0), ("light", 170)):
        for number in range(6):
            pixels = DRAW.integers(low, low + 80, (*size, 3), dtype=np.uint8)
            put(f"{folder}/{kind}/{number}{'.npy' if number % 2 else '.ppm'}", pixels if number % 2 else ppm(pixels))
    return folder


def films(folder="films"):
    for kind, words in (("bad", "dull awful film"), ("good", "great lovely film")):
        for number in range(8):
            put(f"{folder}/{kind}/{number}.txt", " ".join(DRAW.permutation(words.split())) + ".")
    return folder


def test_files_by_class_and_name_and_the_share_that_is_set_aside():
    data = ImageFolder(shades(), test_fraction=0.25, split="stratified", seed=3)
    train_x, train_y, test_x, test_y = data.load()
    assert (train_x.shape, train_x.dtype, test_x.shape) == ((9, 5, 7, 3), np.uint8, (3, 5, 7, 3))
    assert data.classes == ["dark", "light"] and sorted([*train_y, *test_y]) == [0] * 6 + [1] * 6
    rows = np.argsort(np.concatenate(data.drawn))
    assert np.array_equal(np.concatenate([train_x, test_x])[rows][1], np.load("shades/dark/1.npy"))
    assert [np.mean(x) > 128 for x in train_x] == list(train_y)
    shades("other")
    put("other/dark/.hidden.npy", COLOURS), put("other/dark/notes.md", "no image")
    both = ImageFolder("shades", class_names=["light", "dark"], test_directory="other")
    assert [len(part) for part in both.load()] == [12] * 4 and list(both.load()[1]) == [0] * 6 + [1] * 6


def test_images_are_converted_as_pillow_does_and_resized_as_the_layer_does():
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(COLOURS).save("a.png")
    put("a.ppm", ppm(COLOURS)), put("a.npy", COLOURS), put("grey.pgm", ppm(COLOURS[..., 0]))
    for mode, theirs in (("rgb", "RGB"), ("grayscale", "L"), ("rgba", "RGBA")):
        expected = np.array(pillow.open("a.png").convert(theirs)).reshape(5, 7, -1)
        for name in ("a.png", "a.ppm", "a.npy"):
            assert np.array_equal(read_image(Path(name), mode), expected)
        grey = np.array(pillow.open("grey.pgm").convert(theirs)).reshape(5, 7, -1)
        assert np.array_equal(read_image(Path("grey.pgm"), mode), grey)
    for how, crop in (("bilinear", False), ("bilinear", True), ("nearest", True)):
        exact = Compiled(Resizing(4, 9, how, crop), COLOURS.shape).value(COLOURS[None])[0]
        assert np.abs(fitted(COLOURS, (4, 9), how, crop=crop) - exact).max() <= 0.5 + 1e-9


def test_a_model_of_a_job_answers_by_the_names_of_folders_and_takes_texts():
    pictures = ImageFolder(shades(), test_fraction=0.25, split="stratified")
    model = SequentialModel([-1, 5, 7, 3], [Flatten(), Dense(2, "softmax")])
    model.setup("crossentropy")
    trained = ParallelSGD(model, pictures, ImageCls(flatten=False)).parallel(in_process(2), epoch=2, block_size=3).models[0]
    again = Model.from_bytes(trained.to_bytes())
    assert again.inputs.classes == ["dark", "light"]
    pixels = pictures.load()[2]
    assert np.array_equal(again.predict(pixels), trained.predict(pixels / np.float32(255)))

    texts = TextFolder(films(), max_tokens=10, length=4, test_fraction=0.25, split="stratified")
    assert texts.words[:3] == ["", "[UNK]", "film"]
    assert texts.load()[0].dtype == np.int32 and (texts.load()[0][:, 3] == 0).all()
    model = SequentialModel([-1, 4], [Embedding(10, 3, mask_zero=True), GlobalAveragePool(), Dense(2, "softmax")])
    model.setup("crossentropy")
    trained = ParallelSGD(model, texts).parallel(in_process(2), epoch=2, block_size=3).models[0]
    again = Model.from_bytes(trained.to_bytes())
    given = ["A great film!", "an awful one"]
    expected = trained.predict(texts.plan.encode([{"text": text} for text in given]))
    assert np.array_equal(again.predict(given), expected)
    assert np.array_equal(again.predict([{"text": text} for text in given]), expected)


def test_words_are_those_of_the_training_part_and_files_may_not_change():
    put("train/a/1.txt", "one two"), put("train/b/1.txt", "two")
    put("test/a/1.txt", "three"), put("test/b/1.txt", "two three")
    data = TextFolder("train", output_mode="count", test_directory="test")
    assert data.words == ["[UNK]", "two", "one"]
    assert data.load()[2].tolist() == [[1, 0, 0], [1, 1, 0]]
    put("train/b/1.txt", "other")
    with pytest.raises(ValueError, match="TextFolder: files of 'train' have changed since they were first read"):
        data.load()


def test_a_mark_of_byte_order_is_no_part_of_a_text():
    put("marked/a/1.txt", b"\xef\xbb\xbfone two"), put("marked/b/1.txt", b"one\r\ntwo")
    data = TextFolder("marked", test_directory="marked")
    assert data.words == ["", "[UNK]", "two", "one"]
    assert data.load()[0].tolist() == [[3, 2], [3, 2]]
    text = put("text.txt", b"\xef\xbb\xbf" + b"to be or not " * 20)
    assert "\ufeff" not in CharacterText(text, 4).vocabulary


def test_hidden_folders_within_a_class_hold_no_samples():
    for folder in ("a", "a/.ipynb_checkpoints", "a/deep/.thumbnails/x", "a/deep", "b"):
        put(f"kept/{folder}/1.npy", COLOURS), put(f"kept/{folder}/1.txt", "one")
    for kind in (ImageFolder, TextFolder):
        assert kind("kept", test_directory="kept").load()[1].tolist() == [0, 0, 1]


def test_windows_apart():
    x, y = np.arange(12.0)[:, None], np.arange(12.0) * 10
    made = Windows(3, stride=2, rate=2)
    train_x, train_y, test_x, test_y = made(x[:9], y[:9], x[9:], y[9:])
    assert train_x[..., 0].tolist() == [[0, 2, 4], [2, 4, 6]] and train_y.tolist() == [50, 70]
    assert test_x[..., 0].tolist() == [[4, 6, 8], [6, 8, 10]] and test_y.tolist() == [90, 110]
    assert made.at_prediction(x[:6], None)[0][..., 0].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert made.at_evaluation(x[:8], y[:8])[1].tolist() == [50, 70]
    with pytest.raises(ValueError, match="'steps' must be at most the number of rows, 4, got 3 of every 2 rows"):
        made.at_prediction(x[:4], None)


def test_sequences_are_padded_as_keras_does():
    lists = [[1, 2, 3], [4], []]
    assert pad_sequences(lists).tolist() == [[1, 2, 3], [0, 0, 4], [0, 0, 0]]
    assert pad_sequences(lists, 2, padding="post", value=-1).tolist() == [[2, 3], [4, -1], [-1, -1]]
    assert pad_sequences(lists, 2, truncating="post", dtype="float32").tolist() == [[1, 2], [0, 4], [0, 0]]
    assert pad_sequences([np.ones((1, 2)), np.ones((3, 2))], 2).shape == (2, 2, 2)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ImageFolder("nowhere").load(), "ImageFolder finds no folder 'nowhere'"),
        (lambda: ImageFolder("shades", class_names=["drk"]).load(), "got 'drk'; did you mean 'dark'?"),
        (lambda: ImageFolder("shades/dark").load(), "'shades/dark' must have a folder for each class, it has none"),
        (lambda: TextFolder("shades").load(), "'shades/dark' must hold files that end in .txt, it has none"),
        (lambda: ImageFolder("shades", (3,)), "'image_size' must be height and width, got (3,)"),
        (lambda: ImageFolder("sizes").load(), "needs images of one size, 5 x 7, 'sizes/a/b.npy' has 2 x 2"),
        (
            lambda: read_image(put("x.ppm", b"P6 4 4 255\nabc"), "rgb"),
            "'x.ppm' is damaged: 4 x 4 x 3 bytes of pixels, it has 3",
        ),
        (lambda: read_image(put("x.pgm", b"P5 99999 99999 255\n"), "rgb"), "must have 1 to 67108864 pixels"),
        (lambda: read_image(put("x.pgm", b"P2 1 1 255\n1"), "rgb"), "'x.pgm' is no binary PGM or PPM"),
        (lambda: read_image(put("x.npy", np.ones((2, 2))), "rgb"), "must hold uint8 of shape (height, width)"),
        (lambda: read_image(put("x.png", b"no image"), "rgb"), "'x.png' is damaged, too large, or no image"),
        (lambda: read_image(put("x.pgm", b"P5" + b" " * 60 + b"x"), "rgb"), "'x.pgm' is no binary PGM or PPM"),
        (lambda: read_image(put("x.npy", b""), "rgb"), "'x.npy' is no .npy file of version 1 or 2: it begins"),
        (lambda: TextFolder("binary").load(), "must be text in UTF-8"),
        (
            lambda: ImageFolder("links").load(),
            "ImageFolder: the link 'links/a/1.npy' must lead to a file, 'nowhere.npy' is not there",
        ),
        (
            lambda: ImageFolder("sizes", test_directory="shades").load(),
            "'shades' must have folders of the classes of 'sizes', a, got 'dark'; 'class_names' leaves others out",
        ),
        (
            lambda: ImageFolder("foreign").load(),
            "ImageFolder: names of folders in 'foreign' must be text in UTF-8, got b'\\xff'",
        ),
        (lambda: pad_sequences([1]), "pad_sequences() 'sequences' must be lists of numbers, got 1 at 0"),
        (lambda: pad_sequences([[[1, 2]], [[1]]]), "must hold entries of one shape, got (1,) and (2,)"),
        (lambda: pad_sequences([["a"]]), "'sequences' must be lists of numbers, got ['a'] at 0"),
        (lambda: pad_sequences([[1], [2, None]]), "'sequences' must be lists of numbers, got [2, None] at 1"),
        (lambda: pad_sequences(5), "pad_sequences() 'sequences' must be lists of numbers, got 5"),
        (lambda: pad_sequences([[1]], dtype="int33"), "pad_sequences() 'dtype' must be a type of NumPy, got 'int33'"),
        (lambda: pad_sequences([[1]], value="x"), "pad_sequences() 'value' must be a number, got 'x'"),
        (lambda: pad_sequences([[1, 2**40]]), "'sequences' must hold numbers of int32, got 1 to 1099511627776 at 0"),
    ],
)
def test_what_is_refused(make, said):
    shades()
    put("sizes/a/a.npy", COLOURS), put("sizes/a/b.npy", COLOURS[:2, :2]), put("binary/a/1.txt", b"\xff\xfe")
    put("binary/a/2.txt", "a")
    os.makedirs(b"foreign/\xff")
    put("links/a/2.npy", COLOURS)
    Path("links/a/1.npy").symlink_to("nowhere.npy")
    with pytest.raises((OSError, TypeError, ValueError), match=re.escape(said)):
        make()


def test_images_of_two_bytes_keep_the_higher_one_and_bombs_are_named():
    """Pillow makes white of all that is above 255, and has an error of its own for files that claim too many pixels."""
    pillow = pytest.importorskip("PIL.Image")
    deep = DRAW.integers(0, 1 << 16, (4, 5)).astype(np.uint16)
    pillow.fromarray(deep).save("deep.png")
    assert np.array_equal(read_image(Path("deep.png"), "grayscale")[..., 0], deep >> 8)
    assert np.array_equal(read_image(Path("deep.png"), "rgb"), np.repeat(deep[..., None] >> 8, 3, axis=2))
    pillow.fromarray(np.ones((2, 2), np.float32)).save("deep.tiff")
    Path("deep.tiff").rename("float.png")
    with pytest.raises(
        ValueError, match=r"'float.png' must have one or two bytes for each colour of a pixel, got the mode 'F'"
    ):
        read_image(Path("float.png"), "rgb")
    content = Path("deep.png").read_bytes()
    header = struct.pack(">II", 60_000, 60_000) + content[24:29]
    bomb = content[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + content[33:]
    with pytest.raises(ValueError, match=r"'bomb.png' is damaged, too large, or no image: Image size \(3600000000 pixels\)"):
        read_image(put("bomb.png", bomb), "rgb")


def test_fewer_levels_and_palettes_with_alpha_are_read_as_pillow_does(recwarn):
    pillow = pytest.importorskip("PIL.Image")
    for greatest in (1, 7, 100, 254):
        levels = np.arange(greatest + 1, dtype=np.uint8).tobytes()
        path = put(f"{greatest}.pgm", b"P5 %d 1 %d\n" % (greatest + 1, greatest) + levels)
        assert np.array_equal(read_image(path, "grayscale")[..., 0], np.array(pillow.open(path).convert("L")))
    few = pillow.fromarray(COLOURS).quantize(5)
    few.save("palette.png", transparency=bytes([0, 50, 100, 200, 255]))
    for mode in ("rgb", "grayscale"):
        plain = np.array(few.convert({"rgb": "RGB", "grayscale": "L"}[mode])).reshape(5, 7, -1)
        assert np.array_equal(read_image(Path("palette.png"), mode), plain)
    assert not [each for each in recwarn if "Palette" in str(each.message)]


def test_images_that_need_pillow_are_asked_for_where_a_node_lacks_it(tmp_path, monkeypatch):
    pillow = pytest.importorskip("PIL.Image")
    for kind in "ab":
        Path("pictures", kind).mkdir(parents=True)
        pillow.fromarray(COLOURS).save(f"pictures/{kind}/1.png")
    data = ImageFolder("pictures", test_fraction=0.5)
    recipe, checksum = (ImageFolder, data.get_config()), data.checksum()
    assert samples_at_hand(tmp_path / "cache", checksum, recipe) is not None
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"'pictures/./1.png' needs Pillow: pip install pillow"):
        data.load()
    # A worker that meets this error asks the submitter for the arrays.
    with pytest.raises(ValueError, match=r"A data set cannot be loaded on this node: .* needs Pillow"):
        samples_at_hand(tmp_path / "cache", checksum, recipe)


@pytest.mark.processes
def test_images_that_change_before_a_job_are_told_with_the_remedy(tmp_path):
    data = ImageFolder(shades(), test_fraction=0.25, split="stratified")
    data.checksum()
    np.save("shades/light/1.npy", np.zeros((5, 7, 3), np.uint8))
    model = SequentialModel([-1, 5, 7, 3], [Flatten(), Dense(2, "softmax")])
    model.setup("crossentropy")
    with (
        local_workers(1) as nodes,
        pytest.raises(ValueError, match=r"have changed since they were first read\. Make"),
    ):
        ParallelSGD(model, data, ImageCls(flatten=False)).parallel(nodes, epoch=1, block_size=3, directory=tmp_path)


def test_a_folder_is_looked_for_where_the_environment_says(monkeypatch, tmp_path):
    shades(str(tmp_path / "kept" / "shades"))
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "kept"))
    assert ImageFolder("shades").classes == ["dark", "light"]
    assert nn.dataset.ImageFolder("shades", (2, 2)).source_of("train_x") == "shades"
