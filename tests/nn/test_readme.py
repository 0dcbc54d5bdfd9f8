"""The guide's programs run as they stand."""

import inspect
import re
from pathlib import Path

import pytest

import nn

GUIDE = Path(nn.__file__).parent / "README.md"


def test_the_guide_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"README.md block {number}", "exec"), names)
    result, same, line = names["result"], names["same"], names["line"]
    assert isinstance(result, dict)
    assert result["accuracy"] > 0.9
    assert same
    assert isinstance(line, nn.model.Model)
    assert [variable.get_value().item() for variable in line.trainable_variables()] == pytest.approx([3, -2], abs=0.05)
    assert "dense_1/kernel" in capsys.readouterr().out


def test_the_table_names_every_public_class() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    packages = (
        nn.layer,
        nn.activation,
        nn.loss,
        nn.metric,
        nn.gradient_descent,
        nn.optimizer,
        nn.initializer,
        nn.callback,
        nn.model,
    )
    for package in (*packages, nn.dataset, nn.dataset.transforms):
        for name in getattr(package, "__all__", []):
            if inspect.isclass(getattr(package, name)):
                assert f"`{name}" in text or name.startswith("I") or name in BASES, f"{name} is missing in nn/README.md"


BASES = {"Layer", "Activation", "Loss", "Metric", "ModelFileError", "Exchange", "AbsDataset", "AbsTransformer", "Chain"}
