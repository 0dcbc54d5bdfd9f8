"""Questions to the search of the documentation site in site/, as users type them: the place where the thing is defined comes
first. `make docs` builds the site and runs this file; it stands in no other run, for which there is no site.

Node runs the worker that the site gives to browsers (site_search.mjs), so the order is the one that a reader sees.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess

import pytest

from tests.sources import PACKAGES, ROOT

SITE = ROOT / "site"
REFERENCE = "docs/reference"
ANSWERS = {
    # jobs and their options
    "ParallelSGD.parallel": f"{REFERENCE}/parallel_sgd.html#parallel_sgd.ParallelSGD.parallel",
    "parallel": f"{REFERENCE}/parallel_sgd.html#parallel_sgd.ParallelSGD.parallel",
    "local_workers": f"{REFERENCE}/parallel_sgd.html#parallel_sgd.local_workers",
    "local workers": f"{REFERENCE}/parallel_sgd.html#parallel_sgd.local_workers",
    "in_process": f"{REFERENCE}/parallel_sgd.html#parallel_sgd.in_process",
    "parse_worker": f"{REFERENCE}/parallel_sgd.html#parallel_sgd.parse_worker",
    "JobResult": f"{REFERENCE}/parallel_sgd.html#parallel_sgd.JobResult",
    "block_size": "docs/options.html#block_size",
    "redundancy": "docs/options.html#redundancy",
    "on_failure": "docs/options.html#on_failure",
    "checkpoint_every": "docs/options.html#checkpoint_every",
    "resume": "docs/options.html#resume",
    "SynchronizedSGD": f"{REFERENCE}/parallel_sgd.batch_sync.html#parallel_sgd.batch_sync.sync.synchronized.SynchronizedSGD",
    "restart": "docs/reliability.html#when-a-node-fails",
    # networks
    "batch_size": f"{REFERENCE}/nn.model.html#nn.model.Model.fit",
    "fit": f"{REFERENCE}/nn.model.html#nn.model.Model.fit",
    "teacher": "docs/notebooks.html#in-a-class",
    "dashboard": "docs/run-page.html#while-it-goes-on",
    "fitted": f"{REFERENCE}/nn.dataset.transforms.html#nn.dataset.transforms.Normalize.fitted",
    "load": f"{REFERENCE}/nn.model.html#nn.model.Model.load",
    "evaluate": f"{REFERENCE}/nn.model.html#nn.model.Model.evaluate",
    "predict": f"{REFERENCE}/nn.model.html#nn.model.Model.predict",
    "Model.save": f"{REFERENCE}/nn.model.html#nn.model.Model.save",
    "Dense": f"{REFERENCE}/nn.layer.html#nn.layer.Dense",
    "BatchNorm": f"{REFERENCE}/nn.layer.html#nn.layer.BatchNorm",
    "relu": f"{REFERENCE}/nn.activation.html#nn.activation.ReLU",
    "auc": f"{REFERENCE}/nn.metric.html#nn.metric.AreaUnderCurve",
    "momentum": f"{REFERENCE}/nn.gradient_descent.html#nn.gradient_descent.MomentumOptimizer",
    "warmup": f"{REFERENCE}/nn.gradient_descent.html#nn.gradient_descent.WarmUp",
    "Shuffle": f"{REFERENCE}/nn.dataset.transforms.html#nn.dataset.transforms.Shuffle",
    "CIFAR10": f"{REFERENCE}/nn.dataset.html#nn.dataset.CIFAR10",
    "Conv2D": f"{REFERENCE}/nn.layer.html#nn.layer.Conv2D",
    "Dropout": f"{REFERENCE}/nn.layer.html#nn.layer.Dropout",
    "adam": f"{REFERENCE}/nn.gradient_descent.html#nn.gradient_descent.ADAMOptimizer",
    "EarlyStopping": f"{REFERENCE}/nn.callback.html#nn.callback.EarlyStopping",
    "NeuralClassifier": f"{REFERENCE}/nn.sklearn.html#nn.sklearn.NeuralClassifier",
    # codecs
    "Codec": f"{REFERENCE}/parallel_sgd.codec.html#parallel_sgd.codec.Codec",
    "TopK": f"{REFERENCE}/parallel_sgd.codec.html#parallel_sgd.codec.TopK",
    "Ring": f"{REFERENCE}/parallel_sgd.codec.html#parallel_sgd.codec.Ring",
    "QSGD": f"{REFERENCE}/parallel_sgd.codec.html#parallel_sgd.codec.QSGD",
    "PowerSGD": f"{REFERENCE}/parallel_sgd.codec.html#parallel_sgd.codec.PowerSGD",
    "ErrorFeedback": f"{REFERENCE}/parallel_sgd.codec.pipeline.html#parallel_sgd.codec.pipeline.ErrorFeedback",
    "check_codec": f"{REFERENCE}/parallel_sgd.testing.html#parallel_sgd.testing.check_codec",
    # from installation to runs of last month
    "install": "index.html#set-up-one-command",
    "worker.json": "index.html#run-on-several-machines",
    "job.toml": "docs/command.html#jobtoml-to-train-a-run-again",
    "psgd runs": "docs/command.html#runs-of-a-directory",
    "psgd verify": "docs/command.html#is-it-what-it-says",
    "psgd worker": "docs/command.html",
    "psgd submit": "docs/command.html",
    "psgd sweep": "docs/sweeps.html#from-a-terminal",
    "psgd doctor": "docs/launchers.html#are-all-workers-well",
    "psgd plan": "docs/simulation.html#plan",
    "report.html": "docs/run-page.html",
    "rotate key": "docs/day-two.html#change-the-key",
    "disk full": "docs/day-two.html#what-grows-and-how-far",
    "GPU": "index.html#limits",
    "reproducible": "docs/first-run.html#train-the-same-again-may-be-skipped",
    "Slurm": "deploy/index.html#slurm",
    # errors
    "cannot be reached": "docs/errors.html#reach-workers",
    "is busy": "docs/errors.html#submit-a-job",
    # words of other libraries
    "scikit-learn": "nn/index.html#in-scikit-learn",
    "all-reduce": f"{REFERENCE}/parallel_sgd.codec.html#parallel_sgd.codec.Ring",
    "learning rate": f"{REFERENCE}/nn.gradient_descent.html#nn.gradient_descent.IGradientDescent",
    "gradient clipping": f"{REFERENCE}/nn.gradient_descent.html#nn.gradient_descent.IGradientDescent",
    "freeze layers": "docs/transfer.html#a-new-head-on-a-trained-model",
    "transfer learning": "docs/transfer.html#a-new-head-on-a-trained-model",
    "custom layer": "nn/index.html#a-layer-of-your-own",
    "federated learning": "docs/clients.html",
    "elastic": "docs/elastic.html",
    "ClusterExecutor": f"{REFERENCE}/executor.html#executor.ClusterExecutor",
}
SUBJECTS = ["report", "train", "codec", "gradient", "worker", "checkpoint", "gossip", "heartbeat", "kernel", "notebook"]
GUIDES = re.compile(r"(index|docs/[\w-]+|docs/reference/.*|(nn|executor|deploy|parallel_sgd/.*)/index)\.html")


@functools.cache
def found() -> dict[str, list[str]]:
    """Return the places that the search finds for each question, best first."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    asked = subprocess.run(
        ["node", str(ROOT / "tests" / "site_search.mjs"), str(SITE)],
        input=json.dumps([*ANSWERS, *SUBJECTS]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0 and not asked.stderr, asked.stderr
    answers: dict[str, list[str]] = json.loads(asked.stdout)
    return answers


@pytest.mark.parametrize("question", ANSWERS)
def test_the_place_where_it_is_defined_comes_first(question: str) -> None:
    assert found()[question][:1] == [ANSWERS[question]]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_guides_and_the_reference_come_before_decisions_and_programs(subject: str) -> None:
    places = found()[subject]
    assert len(places) >= 3 and GUIDES.match(places[0]), places[:3]


def test_each_entry_has_a_weight() -> None:
    """The search takes 0 for 1, by which a decision would come before all guides."""
    index = json.loads((SITE / "search" / "search_index.json").read_text("utf-8"))["docs"]
    assert [entry["location"] for entry in index if not entry["boost"] > 0] == []


def test_sources_are_not_found() -> None:
    """Guides lead to files of the packages; these have pages, which the search leaves out."""
    index = json.loads((SITE / "search" / "search_index.json").read_text("utf-8"))["docs"]
    places = {entry["location"].partition("#")[0] for entry in index}
    pages = {path.relative_to(SITE).as_posix() for name in PACKAGES for path in SITE.glob(f"{name}/**/*.py.html")}
    assert len(pages) > 10 and not pages & places
