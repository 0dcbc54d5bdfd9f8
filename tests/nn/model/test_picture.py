"""Summary and picture of models with branches and shared layers."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nn
from nn.model.diagram import Diagram
from nn.model.picture import Placement
from nn.value import Value
from tests.nn.model.models import classifier
from tests.nn.model.test_split import residual

SVG = "{http://www.w3.org/2000/svg}"


class Branches(nn.model.Model):
    """Long and short ways from everywhere to everywhere, a shared layer, and a name that XML cannot hold."""

    def __init__(self) -> None:
        super().__init__([-1, 6])
        self.parts = [nn.layer.Dense(6) for _ in range(7)]
        self.odd = nn.layer.Dense(6, name='<b> & "quoted" \x00 日本')
        self.w = nn.Variable([6])

    def call(self, x: Value) -> Value:
        a, b, c = (part(x) for part in self.parts[:3])
        d = self.parts[4](self.parts[3](b) + a)
        e = self.parts[5](c) + d + a
        f = self.odd(self.parts[6](e) * self.w + x)
        return self.parts[6](f + e)


def branches() -> Branches:
    model = Branches()
    model.setup(nn.loss.MSELoss())
    return model


def drawn(model: nn.model.Model, folder: Path) -> ElementTree.Element:
    model.plot(folder / "model.svg")
    return ElementTree.parse(folder / "model.svg").getroot()


Rectangle = tuple[float, float, float, float]


def rectangles(root: ElementTree.Element) -> list[Rectangle]:
    found = [element for element in root.iter(f"{SVG}rect") if element.get("class")]
    return [tuple(float(element.get(name, "")) for name in ("x", "y", "width", "height")) for element in found]  # type: ignore[misc]


def curve(path: str) -> list[tuple[float, float]]:
    """Points along the lines and curves of a path."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    commands = re.findall(r"[MLC]", path)
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    found, place = [points[0]], 1
    for command in commands[1:]:
        start = found[-1]
        control = [start, *points[place : place + (3 if command == "C" else 1)]]
        place += len(control) - 1
        for step in range(1, 21):
            level, share = control, step / 20
            while len(level) > 1:
                level = [
                    (one[0] + share * (two[0] - one[0]), one[1] + share * (two[1] - one[1]))
                    for one, two in zip(level, level[1:], strict=False)  # noqa: RUF007
                ]
            found.append(level[0])
    return found


@pytest.mark.parametrize("make", [classifier, residual, branches])
def test_nothing_overlaps_and_arrows_run_between_boxes(make: type[nn.model.Model], tmp_path: Path) -> None:
    model = make()
    root = drawn(model, tmp_path)
    boxes = rectangles(root)
    width, height = (float(root.get(name, "")) for name in ("width", "height"))
    for place, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert x + w <= width
        assert y >= 0
        assert y + h <= height
        for x2, y2, w2, h2 in boxes[:place]:
            assert x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y
    assert height - max(y + h for _, y, _, h in boxes) == min(x for x, *_ in boxes)  # as much room below as at the left
    paths = [curve(element.get("d", "")) for element in root.iter(f"{SVG}path")]
    diagram = Diagram(model.graph)
    assert len(boxes) == len(diagram.boxes)
    assert len(paths) == sum(len(box.sources) for box in diagram.boxes)
    for points in paths:
        for x, y, w, h in boxes:
            assert not any(x < px < x + w and y < py < y + h for px, py in points)
    ends = [(source, target) for target, box in enumerate(diagram.boxes) for source in box.sources]
    for (source, target), points in zip(ends, paths, strict=True):
        x, y, w, h = boxes[source]
        assert (x <= points[0][0] <= x + w, points[0][1]) == (True, y + h)
        x, y, w, h = boxes[target]
        assert (x <= points[-1][0] <= x + w, points[-1][1]) == (True, y)


def test_texts_lie_in_their_boxes_and_are_escaped(tmp_path: Path) -> None:
    root = drawn(branches(), tmp_path)
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert texts[0] == "Branches"
    assert '<b> & "quoted" � 日本 (Dense)' in texts
    assert "dense_7 (Dense) use 2 of 2" in texts
    assert "(-1, 6)  with w (6)" in texts
    for line, (_, _, width, _) in zip(texts[1::2], rectangles(root), strict=True):
        assert len(line) * 7.3 < width


def test_a_layer_that_is_used_twice_is_counted_once() -> None:
    text = branches().summary()
    assert text.count("shared") == 1
    assert "Total parameters: 342 " in text
    assert "dense_7 (Dense) use 2" in text


def test_the_summary_tells_what_feeds_what_unless_it_is_a_chain() -> None:
    lines = residual().summary().splitlines()
    assert lines[2].split() == ["Layer", "Output", "shape", "Parameters", "From"]
    assert any(line.startswith("add_1 (Add)") and line.endswith("first, multiply_1") for line in lines)
    assert any(line.startswith("scale (Variable)") for line in lines)
    assert "From" not in classifier().summary()


def test_memory() -> None:
    lines = classifier(width=16).summary().splitlines()[-4:]
    assert lines[0] == "Total parameters: 195 (780 bytes as float32)"
    assert lines[1] == "Trainable parameters: 195 (780 bytes as float32)"
    assert lines[2] == "Other parameters: 0 (0 bytes as float32)"
    assert re.match(r"Activations per sample: about \d+ bytes, in training with gradients \d+ bytes$", lines[3])
    assert "Total parameters: 1,203 (4.7 KiB as float32)" in classifier(width=100).summary()


def test_operations_do_not_take_the_names_of_layers() -> None:
    class Named(nn.model.Model):
        def call(self, x: Value) -> Value:
            return nn.layer.Dense(2, name="add_1")(x + x)

    model = Named([-1, 2])
    model.setup(nn.loss.MSELoss())
    assert [box.name for box in Diagram(model.graph).boxes] == ["input", "add_2", "add_1"]


def test_long_chains_and_wide_rows() -> None:
    chain = Placement([50.0] * 200, [[], *([place] for place in range(199))])
    assert len(chain.rows) == 200
    assert {round(spot.x, 6) for spot in chain.spots} == {25.0}
    wide = Placement([50.0] * 12, [[], *([0] for _ in range(10)), list(range(1, 11))])
    assert [len(row) for row in wide.rows] == [1, 10, 1]
    assert wide.spots[0].x == pytest.approx(wide.spots[11].x)


def test_only_svg(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"plot\(\) 'path' must end in .svg, got 'model.png'"):
        classifier().plot("model.png")
    with pytest.raises(ValueError, match="is not built yet"):
        nn.model.SequentialModel(layers=[nn.layer.Dense(1)]).plot(tmp_path / "model.svg")
