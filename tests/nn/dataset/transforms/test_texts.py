"""Texts as numbers: vocabularies as Keras learns them, models that take texts, and what is refused."""

import json
import re

import numpy as np
import pytest

import nn
from nn.dataset import ArrayDataset, CSVDataset, Plan
from nn.dataset.plan import Text
from nn.dataset.transforms import Normalize, Shuffle, StringLookup, TextVectorization
from nn.layer import Dense, Embedding, GlobalAveragePool, Normalization
from nn.model import Model, SequentialModel
from parallel_sgd import ParallelSGD, in_process

TEXTS = ["The cat sat.", "the CAT, the dog!", "a dog"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def adapted(**how):
    made = TextVectorization(**how)
    made.adapt(TEXTS)
    return made


def test_the_most_frequent_words_come_first_those_of_equal_counts_in_reverse_as_in_keras():
    made = adapted(output_sequence_length=3)
    assert made.words == ["", "[UNK]", "the", "dog", "cat", "sat", "a"]
    assert made.apply(["A cat sat here", "", "birds"]).tolist() == [[6, 4, 5], [0, 0, 0], [1, 0, 0]]
    assert made.apply(TEXTS).dtype == np.int32
    assert adapted(max_tokens=4).words == ["", "[UNK]", "the", "dog"]
    assert adapted().apply(["a"]).shape == (1, 4), "as long as the longest text that was learnt from"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"standardize": None}, ["The", "cat", "sat."]),
        ({"standardize": "lower"}, ["the", "cat", "sat."]),
        ({"standardize": "strip_punctuation"}, ["The", "cat", "sat"]),
        ({"split": None}, ["the cat sat"]),
        ({"split": "character"}, [*"the cat sat"]),
        ({"ngrams": 2}, ["the", "cat", "sat", "the cat", "cat sat"]),
    ],
)
def test_how_a_text_is_split(how, words):
    made = adapted(**how)
    assert [made.words[number] for number in made.apply(TEXTS)[0] if number] == words


def test_counts_and_weights():
    words = ["[UNK]", "the", "dog", "cat", "sat", "a"]
    assert adapted(output_mode="count").words == words
    assert adapted(output_mode="count").apply(["the the bird"]).tolist() == [[1, 2, 0, 0, 0, 0]]
    assert adapted(output_mode="multi_hot").apply(["the the bird"]).tolist() == [[1, 1, 0, 0, 0, 0]]
    # Keras: log(1 + texts / (1 + texts with the word)), and the mean of these for what is unknown.
    weights = np.log1p(3 / (1 + np.array([2, 2, 2, 1, 1])))
    found = adapted(output_mode="tf_idf").apply(["the the bird"])
    np.testing.assert_allclose(found[0, :2], [weights.mean(), 2 * weights[0]], rtol=1e-6)


def test_words_are_looked_up():
    made = StringLookup(max_tokens=3)
    made.adapt([["b", "a"], ["b", "c"]])
    assert made.words == ["[UNK]", "b", "c"]
    assert made.apply([["a", "b"]]).tolist() == [[0, 1]]
    rows = StringLookup(vocabulary=["x", "y"], output_mode="one_hot").apply(["y", "z"])
    assert rows.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert StringLookup(vocabulary=["x"], output_mode="count").apply([["x", "x"]]).tolist() == [[0, 2]]
    # Words of pandas for a missing cell are words here.
    assert StringLookup(vocabulary=["NA"], num_oov_indices=0).apply(["NA"]).tolist() == [0]


def test_a_model_file_carries_words_and_statistics():
    vectorize = adapted(output_sequence_length=4)
    model = SequentialModel([-1, 4], [Embedding(7, 3, mask_zero=True), GlobalAveragePool(), Dense(1, "sigmoid")])
    model.compile("adam", "binary_crossentropy")
    model.inputs = vectorize
    again = Model.from_bytes(model.to_bytes())
    texts = ["the dog", "a cat"]
    for x in (texts, np.array(texts), vectorize.apply(texts)):
        assert np.array_equal(again.predict(x), model.predict(vectorize.apply(texts)))
    assert model.evaluate(texts, np.ones((2, 1))) == again.evaluate(vectorize.apply(texts), np.ones((2, 1)))

    made = Normalization()
    made.adapt(ArrayDataset(np.array([[1.0, 9.0], [3.0, 9.0]]), [0, 1], np.ones((1, 2)), [0]))
    assert (made.mean, made.variance) == ((2.0, 9.0), (1.0, 1.0))
    numbers = SequentialModel([-1, 2], [made])
    numbers.setup("mse")
    assert Model.from_bytes(numbers.to_bytes()).predict(np.array([[4.0, 9.0]])).tolist() == [[2.0, 0.0]]
    with pytest.raises(ValueError, match=r"Normalization 'normalization_1' is part of a graph: adapt it before it is called"):
        made.adapt(np.ones((2, 2)))


def test_a_job_keeps_the_words_of_its_model_whatever_it_does_with_the_numbers():
    vectorize = adapted(output_mode="count")
    data = ArrayDataset(np.tile(vectorize.apply(TEXTS), (6, 1)), np.arange(18) % 2, test_fraction=0.2)
    model = SequentialModel([-1, 6], [Dense(2, "softmax")])
    model.setup("crossentropy")
    model.inputs = vectorize
    for transform, steps in ((None, []), (Shuffle(), []), (Shuffle().add(Normalize()), ["Normalize"])):
        trained = ParallelSGD(model, data, transform).parallel(in_process(2), epoch=1, block_size=3).models[0]
        assert [name for name, _ in trained.inputs.steps] == ["TextVectorization", *steps]
        assert trained.predict(["the dog"]).shape == (1, 2)


def test_a_column_of_texts_is_a_kind_of_a_plan():
    words = Text("review", length=3).adapted(TEXTS)
    plan = Plan((words, nn.dataset.plan.Number("stars")), missing="fill")
    rows = [{"review": "the dog", "stars": 2}, {"review": None, "stars": 5}]
    assert plan.encode(rows).tolist() == [[2, 3, 0, 2], [0, 0, 0, 5]]
    assert plan.names == ["review[0]", "review[1]", "review[2]", "stars"]
    again = Plan.from_json(plan.to_json())
    assert again == plan
    other = Plan((Text("review", vocabulary=("dog",), length=3), nn.dataset.plan.Number("stars")))
    assert plan.agrees_with(again) == "" and plan.agrees_with(other) == "column 'review' has another vocabulary"
    content = json.loads(plan.to_json())
    for wrong, said in (
        ({"split": "words"}, "Text 'split' must be one of whitespace, character, none, got 'words'"),
        ({"length": 2**40}, "Text 'length' must be at most 16777216"),
        ({"vocabulary": ["a", "a"]}, "'vocabulary' of column 'review' of a plan must be different texts"),
        ({"output": "tf_idf", "weights": [1e999]}, "'weights' of a column of kind 'text' must be finite numbers"),
    ):
        broken = {**content, "columns": [{**content["columns"][0], **wrong}, content["columns"][1]]}
        with pytest.raises(ValueError, match=re.escape(said)):
            Plan.from_dict(broken)


def test_a_column_of_a_file_is_changed_to_texts(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("review,stars,good\nA great film,3,1\ndull film,1,0\nNA film,2,0\n")
    plan = CSVDataset(path, "good").plan.change("review", "text", length=3)
    assert plan.is_open
    data = CSVDataset(path, "good", plan=plan, test_fraction=0.34)
    assert len(data.load()[0]) == 2
    assert data.plan.columns[0].words == ["", "[UNK]", "film", "na", "great", "dull", "a"]
    assert data.encode({"review": "great! film?", "stars": 2}).tolist() == [[4, 2, 0, 2]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TextVectorization().apply(["a"]), "TextVectorization must have a vocabulary: call adapt(texts)"),
        (lambda: adapted().apply([["a", "b"]]), "TextVectorization needs texts of shape (n,), got (1, 2)"),
        (lambda: TextVectorization().adapt(["a", 3]), "TextVectorization adapt() 'data' must be texts, got 3"),
        (lambda: TextVectorization(split="words"), "'split' must be one of whitespace, character, none, got 'words'"),
        (lambda: TextVectorization(output_mode="count", output_sequence_length=3), "'output_sequence_length' must go with ids"),
        (lambda: TextVectorization(vocabulary=["a", "a"]), "'vocabulary' must be different texts, got 'a' twice"),
        (lambda: StringLookup(vocabulary="abc"), "StringLookup 'vocabulary' must be a list of texts, got 'abc'"),
        (lambda: StringLookup(num_oov_indices=2), "StringLookup 'num_oov_indices' must be 0 or 1, got 2"),
        (lambda: StringLookup(None, 0, ["a"]).apply(["b"]), "StringLookup 'vocabulary' must have every word, got 'b'"),
    ],
)
def test_what_is_refused(make, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        make()


def test_punctuation_is_that_of_ascii_and_other_signs_stay():
    text = "Don't: \u201cL'\u00e9t\u00e9\u201d, a\ud800-b \u4f60\u597d\uff01"
    made = Text("").tokens(text)
    assert made == ["dont", "\u201cl\u00e9t\u00e9\u201d", "a\ud800b", "\u4f60\u597d\uff01"]


@pytest.mark.parametrize("output", ["int", "count", "multi_hot"])
def test_numbers_of_many_texts_are_those_of_each(monkeypatch, output):
    monkeypatch.setattr("nn.dataset.plan.text._TOGETHER", 4)
    texts = [" ".join("abcde"[place % 5] for place in range(number % 7)) for number in range(11)]
    made = Text("", output=output).adapted(texts, 5)
    assert made.length == 6
    found = made.numbers(texts)
    assert np.array_equal(found, np.concatenate([made.numbers([each]) for each in texts]))
    assert found.any(axis=1).tolist() == [bool(each) for each in texts]
    assert made.numbers([]).shape == (0, found.shape[1])
