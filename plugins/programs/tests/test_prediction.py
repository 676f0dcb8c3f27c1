"""Predictions."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from burnish import RolloutRecord, RolloutStatus
from burnish_programs import Prediction


def test_fields_are_items_and_attributes() -> None:
    """A prediction is a mapping of its fields, and each field is an attribute."""
    prediction = Prediction({"answer": 3.0, "reasoning": "so"})
    assert (3.0, "so") == (prediction.answer, prediction["reasoning"])
    assert {"answer": 3.0, "reasoning": "so"} == prediction
    assert "Prediction(answer=3.0, reasoning='so')" == repr(prediction)
    assert Prediction(answer=3.0) == Prediction({"answer": 3.0})


def test_it_is_frozen() -> None:
    """No field can be set, deleted or added."""
    prediction = Prediction(answer=1)
    with pytest.raises(AttributeError, match="frozen"):
        prediction.answer = 2
    with pytest.raises(AttributeError, match="frozen"):
        del prediction.answer
    with pytest.raises(TypeError):
        prediction["answer"] = 2


def test_unknown_field_names_those_there_are() -> None:
    """A misspelt attribute says what the prediction has."""
    with pytest.raises(AttributeError, match="no field `anwser`; it has `answer`"):
        Prediction(answer=1).anwser  # noqa: B018
    assert not hasattr(Prediction(answer=1), "__html__")


def test_fields_named_like_mapping_methods() -> None:
    """A field called `items` is there by key; mappings keep their methods."""
    prediction = Prediction(items=[1], keys=2)
    assert ([1], 2) == (prediction["items"], prediction["keys"])
    assert {"items": [1], "keys": 2} == dict(prediction)


def test_it_can_be_copied_and_written_as_json() -> None:
    """Copies are equal; the JSON form is that of a plain mapping, also in a stored record."""
    prediction = Prediction(answer=[1, None], more={"a": 1.5})
    assert prediction == copy.deepcopy(prediction) == pickle.loads(pickle.dumps(prediction))
    assert '{"answer": [1, null], "more": {"a": 1.5}}' == json.dumps(dict(prediction))
    record = RolloutRecord(status=RolloutStatus.SUCCEEDED, output=dict(prediction))
    assert dict(prediction) == record.output
