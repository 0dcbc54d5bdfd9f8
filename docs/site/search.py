"""The order of what the site's search finds: where a name is defined comes first, then guides, then all else.

Material takes each word of a query for the beginning of a word, sums over titles and texts what each match counts, lets a
rare word count more than a common one, and has turned off the rule by which a title of one word counts more than one of
ten. So `TopK` would find `TopKAccuracy` before `TopK`. The weight of an entry is set here, by the kind of its page and by
the number of words in its title. tests/site_search.py asks the built index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

DEFINITION = re.compile(r"docs/reference/[\w.]+\.html#(?P<path>[\w.]+)$")
LONGER = 0.4
"""Share that a definition keeps where a function's name is its beginning: `fit` finds `fitted`, too, and seldom means it."""
_SHORTEST = 3  # letters of a name that counts as the beginning of others
HUMP = re.compile(r"(?<=.)(?=[A-Z][a-z])")
# the first that fits; a page counts 2.5 times as much as its sections, by Material
WEIGHTS = {
    r"docs/reference/[\w.]+\.html$": 0.4,  # a page of the reference is a list of names
    r"docs/reference/(nn\.model|parallel_sgd)\.html#": 5.0,  # where programs begin
    # what parts are made of has the names of the parts: `Ring` is a codec before it is an exchange pattern
    r"docs/reference/(nn\.(arrays|operation|optimizer|value|threads|names|data)|nn\.html#nn\.IOptimizer)\b": 1.0,
    r"docs/reference/parallel_sgd\.(codec\.(compose|pipeline)|batches|run_page|accounts)\b": 1.0,
    r"docs/reference/(rpc|network)\b": 1.5,
    r"docs/reference/": 3.0,
    r"docs/options\.html#": 3.0,
    r"docs/command\.html$": 0.4,  # its sections tell more of a command than the table of all
    r"docs/adr/": 0.002,  # the title of a decision counts no more than a sentence of a guide
    r"CHANGELOG|docs/contract|docs/proofs/|docs/deviations|README\.zh-CN": 0.2,
    r"examples/|deploy/.*\.\w+\.html": 0.3,
    r"": 1.0,
}
# what is asked for and stands in no title; the site shows it beside the title
ASKED = {
    "index.html#set-up-one-command": ["install"],
    "index.html#run-on-several-machines": ["worker.json"],
    "index.html#limits": ["GPU", "Windows"],
    "docs/command.html": ["psgd"],
    "docs/command.html#runs-of-a-directory": ["psgd runs", "show", "psgd compare"],
    "docs/command.html#is-it-what-it-says": ["psgd verify"],
    "docs/command.html#jobtoml-to-train-a-run-again": ["psgd run", "job.toml"],
    "docs/first-run.html": ["train"],
    "docs/run-page.html": ["report", "report.html"],
    "docs/run-page.html#while-it-goes-on": ["dashboard", "live page"],
    "docs/notebooks.html#in-a-class": ["teacher", "students", "lesson"],
    "docs/day-two.html#change-the-key": ["rotate key", "key file"],
    "docs/day-two.html#what-grows-and-how-far": ["disk full"],
    "docs/day-two.html#look": ["logs"],
    "docs/elastic.html": ["elastic"],
    "docs/errors.html#import-it": ["hides the package"],
    "docs/errors.html#reach-workers": ["cannot be reached", "no node listens"],
    "docs/errors.html#submit-a-job": ["is busy"],
    "docs/first-run.html#train-the-same-again-may-be-skipped": ["reproducible"],
    "docs/launchers.html#are-all-workers-well": ["doctor"],
    "docs/reliability.html#when-a-node-fails": ["restart", "shrink"],
    "docs/simulation.html#plan": ["plan"],
    "docs/sweeps.html#from-a-terminal": ["sweep"],
    "docs/transfer.html#a-new-head-on-a-trained-model": ["transfer", "freeze layers"],
    "docs/clients.html": ["federated"],
    "nn/index.html#a-layer-of-your-own": ["custom layer", "custom loss"],
    "nn/index.html#in-scikit-learn": ["scikit-learn"],
    "docs/reference/nn.activation.html#nn.activation.ReLU": ["relu"],
    "docs/reference/nn.dataset.html#nn.dataset.CIFAR10": ["CIFAR10"],
    "docs/reference/nn.metric.html#nn.metric.AreaUnderCurve": ["auc"],
    "docs/reference/nn.model.html#nn.model.Model.fit": ["fit", "batch_size"],
    "docs/reference/parallel_sgd.codec.html#parallel_sgd.codec.Codec": ["codec"],
    "docs/reference/parallel_sgd.codec.html#parallel_sgd.codec.Ring": ["all-reduce"],
    "docs/reference/nn.gradient_descent.html#nn.gradient_descent.ADAMOptimizer": ["adam"],
    "docs/reference/nn.gradient_descent.html#nn.gradient_descent.IGradientDescent": ["rate", "gradient clipping", "clip_norm"],
}


def weight(location: str) -> float:
    """Return what an entry counts by its place."""
    return next(number for pattern, number in WEIGHTS.items() if re.match(pattern, location))


def words(title: str) -> float:
    """Count the words of a title: one in `block_size` and `TopK`, two in `TopKAccuracy`. A member counts a little more than its
    class, and by each part of its name, as `Model.fit_history` is less often meant than `Model.fit`.
    """
    if member := re.fullmatch(r"(\w+)\.(\w+)", title):
        return 1.1 * max(len(HUMP.split(member[1])), len(member[2].split("_")))
    return sum(len(HUMP.split(part)) for part in title.split()) or 1


def rank(entries: Iterable[dict[str, Any]]) -> None:
    """Set the weight of each entry of the index, and name the members of a class with the class, as `Model.fit`.

    Args:
        entries: entries of Material's index, with `location`, `title` and `text`. They are changed.
    """
    entries, places = list(entries), set()
    matches = (DEFINITION.match(entry["location"]) for entry in entries)
    names = {name for found in matches if found and (name := found["path"].rpartition(".")[2]).islower()}
    for entry in entries:
        location = entry["location"]
        places.add(location)
        entry["boost"] = weight(location)
        if found := DEFINITION.match(location):
            *_, owner, name = ("", *found["path"].split("."))
            entry["title"] = f"{owner}.{name}" if owner[:1].isupper() else name
            parts = entry["title"].lower().split(".")
            if any(part[:length] in names for part in parts for length in range(_SHORTEST, len(part))):
                entry["boost"] *= LONGER
        # of four digits, and never 0, which the search takes for 1
        entry["boost"] = float(f"{entry['boost'] / words(entry['title']) ** 1.5:.4g}")
        if location in ASKED:
            entry["tags"] = ASKED[location]
    if lost := ASKED.keys() - places:
        raise ValueError(f"the search is told of {', '.join(sorted(lost))}, which the site does not have")
