"""`python -m parallel_sgd.testing`, which tries the laws on the codec of a user: what it says of it, and of what is none."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parallel_sgd.testing import check_codec
from parallel_sgd.testing.__main__ import main

MINE = '''
from parallel_sgd.codec import Codec, GlobalSettings, netEncapsulation


class Mine(Codec):
    """Sends every own block to everybody; the mean over blocks when all are here."""

    def __init__(self, node_id):
        super().__init__(node_id)
        self.settings = GlobalSettings.get_default()
        self.blocks = {}

    def update_blocks(self, block_weight):
        self.blocks[block_weight.block_id] = block_weight.content
        others = [node for node in self.settings.nodes if node != self.node_id]
        yield netEncapsulation(others, (block_weight.block_id, block_weight.content))
        self.finish()

    def receive_blocks(self, content):
        block, array = content
        self.blocks[block] = array
        self.finish()

    def finish(self):
        if len(self.blocks) == self.settings.block_count:
            total = sum(self.blocks[block] for block in sorted(self.blocks))
            self.set_result(total / len(self.blocks))
            self.blocks = {}


class Bare(Mine):
    def __init__(self, node_id):
        self.blocks = {}


class Silent(Mine):
    def finish(self):
        pass


class Broken(Mine):
    def finish(self):
        return self.block


class Packed(Mine):
    def update_blocks(self, block_weight):
        for packet in super().update_blocks(block_weight):
            yield netEncapsulation(packet.target(), (packet.content[0], packet.content[1].ravel()[1:]))
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file with a codec of the user's own."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "my_codec.py"
    file.write_text(MINE)
    yield str(file)
    sys.modules.pop("my_codec", None)


def test_the_command_line(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{own}:Mine"]) == 0
    assert "Mine: " in capsys.readouterr().out
    assert main(["QSGD", "--parameters", '{"bits": 4}']) == 0
    for name, told in [
        ("Bare", r"TypeError: Bare.__init__\(\) must call super\(\).__init__\(node_id\)"),
        (
            "Silent",
            r"TimeoutError: .* of epoch 1, batch 1: all have sent, but Silent has set no result: Silent\.receive_blocks .*\.",
        ),
        ("Packed", r"BadContent: Node\(0\) sent what cannot be used, for Packed, .* must be float32 .*"),
        (
            "Broken",
            r"Traceback .*(\n  File \".*my_codec.py\", .*\n.*|\n *[~^]*)*\nAttributeError: 'Broken' object has no attribute .*",
        ),
    ]:
        assert main([f"{own}:{name}"]) == 1
        notes = r"((Node|It was tried on|Broken\.\w+ raised).*\n)*"
        assert re.fullmatch(f"{told}\n{notes}", err := capsys.readouterr().err), err
    for none in (dict, 3, "topk"):
        with pytest.raises(TypeError, match="check_codec 'codec' must be a class derived from Codec, got "):
            check_codec(none)  # type: ignore[arg-type]
    for wrong, message in [
        ("Nothing", "codec 'Nothing' is unknown. Known: "),
        (f"{own}:Yours", "has no 'Yours'"),
        (f"{own[:-3]}s.py:Mine", "does not exist"),
        ("nn.layer:Dense", "must be a class derived from Codec"),
    ]:
        with pytest.raises(SystemExit) as end:
            main([wrong])
        assert end.value.code == 2
        assert message in capsys.readouterr().err
