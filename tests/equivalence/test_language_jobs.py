"""Language models in jobs: rotary positions, tied embeddings and byte-pair tokens give any number of workers the same bits."""

from __future__ import annotations

from pathlib import Path

import nn
from nn.dataset import BytePairs, TokenText
from nn.dataset.transforms import Shuffle
from nn.gradient_descent.schedule import Cosine, WarmUp
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.profiles import FixedBlockAssignment

TEXT = b"the cat sat on the mat, the dog sat on the log, and so it goes. " * 60


def model(vocabulary: int) -> nn.model.Transformer:
    made = nn.model.Transformer(vocabulary, 8, features=8, heads=2, blocks=1, dropout=0.1, rotary=True, tied=True, seed=5)
    rate = WarmUp(Cosine(0.02, 40), 5)
    made.compile(nn.gradient_descent.ADAMWOptimizer(rate, clip_norm=1.0), nn.loss.Cross_Entropy_With_Softmax(), ["accuracy"])
    return made


def run(count: int, data: TokenText, folder: Path) -> JobResult:
    job = ParallelSGD(model(data.tokens.vocabulary), data, Shuffle())
    return job.parallel(
        in_process(count),
        epoch=2,
        block_size=8,
        assignment_type=FixedBlockAssignment.of(blocks=4),
        seed=7,
        directory=folder,
    )


def test_any_number_of_workers_trains_to_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(TEXT)
    tokens = BytePairs.learn(TEXT, 270)
    data = TokenText(tmp_path / "text", tokens, length=8, stride=4)
    found = [run(count, data, tmp_path / str(count)) for count in (1, 2)]
    bits = {each.store.values.tobytes() for result in found for each in result.models.values()}
    assert len(bits) == 1
    first = model(tokens.vocabulary)
    x, y = data.load()[2:]
    assert found[0].models[0].evaluate(x, y)["Loss"] < 0.95 * first.evaluate(x, y)["Loss"]
    written = [result.models[0].generate(x[0], 12, top_k=3).tolist() for result in found]
    assert written[0] == written[1]
