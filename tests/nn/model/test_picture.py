"""Summary and picture of models with branches and shared layers."""

import re
from collections import Counter
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import nn
from tests.nn.model.models import classifier
from tests.nn.model.test_split import residual

SVG = "{http://www.w3.org/2000/svg}"


class Branches(nn.model.Model):
    """Long and short ways from everywhere to everywhere, a shared layer, and a name that XML cannot hold."""

    def __init__(self):
        super().__init__([-1, 6])
        self.parts = [nn.layer.Dense(6) for _ in range(7)]
        self.odd = nn.layer.Dense(6, name='<b> & "quoted" \x00 日本')
        self.w = nn.Variable([6])

    def call(self, x):
        a, b, c = (part(x) for part in self.parts[:3])
        d = self.parts[4](self.parts[3](b) + a)
        e = self.parts[5](c) + d + a
        f = self.odd(self.parts[6](e) * self.w + x)
        return self.parts[6](f + e)


def branches():
    model = Branches()
    model.setup(nn.loss.MSELoss())
    return model


def drawn(model, folder):
    model.plot(folder / "model.svg")
    return ElementTree.parse(folder / "model.svg").getroot()


def rectangles(root):
    found = [element for element in root.iter(f"{SVG}rect") if element.get("class")]
    return [tuple(float(element.get(name)) for name in ("x", "y", "width", "height")) for element in found]


def curve(path):
    """Points along the lines and curves of a path, as complex numbers, by de Casteljau."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    points = list(map(complex, numbers[::2], numbers[1::2]))
    found = [points.pop(0)]
    for command in re.findall(r"[LC]", path):
        control = [found[-1], *(points.pop(0) for _ in range(3 if command == "C" else 1))]
        for share in np.linspace(0, 1, 21)[1:]:
            level = control
            while len(level) > 1:
                level = [one + share * (two - one) for one, two in pairwise(level)]
            found.append(level[0])
    return [(point.real, point.imag) for point in found]


@pytest.mark.parametrize(
    ("make", "count", "arrows"),  # each from one box to another, whose places are hexadecimal digits
    [
        (classifier, 3, "01 12"),
        (residual, 10, "01 12 23 34 15 45 56 67 78 89"),
        (branches, 16, "01 12 03 34 05 46 56 67 28 78 89 59 9a ab bc 0c cd de 9e ef"),
    ],
)
def test_nothing_overlaps_and_arrows_run_between_boxes(make, count, arrows, tmp_path):
    root = drawn(make(), tmp_path)
    boxes = rectangles(root)
    assert len(boxes) == count
    width, height = (float(root.get(name, "")) for name in ("width", "height"))
    for place, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= width - w and 0 <= y <= height - h
        for x2, y2, w2, h2 in boxes[:place]:
            assert x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y
    assert height - max(y + h for _, y, _, h in boxes) == min(x for x, *_ in boxes)  # as much room below as at the left
    paths = [curve(element.get("d", "")) for element in root.iter(f"{SVG}path")]
    for points in paths:
        for x, y, w, h in boxes:
            assert not any(x < px < x + w and y < py < y + h for px, py in points)
    ends = [[int(place, 16) for place in arrow] for arrow in arrows.split()]
    for (source, target), points in zip(ends, paths, strict=True):
        x, y, w, h = boxes[source]
        assert (x <= points[0][0] <= x + w, points[0][1]) == (True, y + h)
        x, y, w, h = boxes[target]
        assert (x <= points[-1][0] <= x + w, points[-1][1]) == (True, y)


def test_texts_lie_in_their_boxes_and_are_escaped(tmp_path):
    root = drawn(branches(), tmp_path)
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert texts[0] == "Branches"
    assert {'<b> & "quoted" \ufffd 日本 (Dense)', "dense_7 (Dense) use 2 of 2", "(-1, 6)  with w (6)"} <= set(texts)
    for line, (_, _, width, _) in zip(texts[1::2], rectangles(root), strict=True):
        assert len(line) * 7.3 < width


def test_the_summary_counts_a_shared_layer_once_and_tells_what_feeds_what_unless_it_is_a_chain():
    text = branches().summary()
    assert text.count("shared") == 1
    assert "Total parameters: 342 " in text
    assert "dense_7 (Dense) use 2" in text
    lines = residual().summary().splitlines()
    assert lines[2].split() == ["Layer", "Output", "shape", "Parameters", "From"]
    assert any(line.startswith("add_1 (Add)") and line.endswith("first, multiply_1") for line in lines)
    assert any(line.startswith("scale (Variable)") for line in lines)
    chain = classifier(width=16).summary()
    assert "From" not in chain
    *parameters, activations = chain.splitlines()[-4:]
    assert parameters == [
        "Total parameters: 195 (780 bytes as float32)",
        "Trainable parameters: 195 (780 bytes as float32)",
        "Other parameters: 0 (0 bytes as float32)",
    ]
    assert re.match(r"Activations per sample: about \d+ bytes, in training with gradients \d+ bytes$", activations)
    assert "Total parameters: 1,203 (4.7 KiB as float32)" in classifier(width=100).summary()


def called(call, *shape):
    """Return a model whose `call` is this function."""
    model = type("Called", (nn.model.Model,), {"call": lambda self, x: call(x)})([-1, *shape])
    model.setup(nn.loss.MSELoss())
    return model


def test_operations_do_not_take_the_names_of_layers():
    rows = called(lambda x: nn.layer.Dense(2, name="add_1")(x + x), 2).summary().splitlines()
    assert [row.split(" (")[0] for row in rows[4:7]] == ["input".ljust(len(rows[4].split(" (")[0])), "add_2", "add_1"]


def chain(x):
    for _ in range(199):
        x = x + 1.0
    return x


def test_long_chains_and_wide_rows(tmp_path):
    boxes = rectangles(drawn(called(chain, 6), tmp_path))
    assert len({y for _, y, _, _ in boxes}) == len(boxes) == 200
    assert max(x + width / 2 for x, _, width, _ in boxes) - min(x + width / 2 for x, _, width, _ in boxes) < 0.2
    wide = rectangles(drawn(called(lambda x: nn.layer.Concatenate()([nn.layer.Dense(6)(x) for _ in range(10)]), 6), tmp_path))
    assert list(Counter(y for _, y, _, _ in wide).values()) == [1, 10, 1]
    first, last = wide[0], wide[-1]
    assert first[0] + first[2] / 2 == pytest.approx(last[0] + last[2] / 2, abs=0.2)


def test_only_svg_of_what_is_built(tmp_path):
    with pytest.raises(ValueError, match=r"plot\(\) 'path' must end in .svg, got 'model.png'"):
        classifier().plot("model.png")
    with pytest.raises(ValueError, match="is not built yet"):
        nn.model.SequentialModel(layers=[nn.layer.Dense(1)]).plot(tmp_path / "model.svg")
