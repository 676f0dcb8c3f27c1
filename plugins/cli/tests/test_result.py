"""result.json and its words."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

from burnish import Candidate, Report, RoleSpend, Spend
from burnish._model.lm import Usage
from burnish.errors import StoreError
from burnish_cli.result import (
    Comparison,
    FailureSummary,
    FailureTable,
    PartlyScored,
    ResultFile,
    Rows,
    Scores,
    read_result,
    result_schema,
    summarize_candidate,
    summarize_report,
    summarize_spend,
    to_json,
    write_result,
)
from burnish_cli.words import in_words

TASK = RoleSpend(requests=900, usage=Usage(input_tokens=90_000, output_tokens=1800), cost=Decimal("0.10"))
PROPOSER = RoleSpend(requests=3, usage=Usage(input_tokens=5000, output_tokens=400), unpriced=3)
SPEND = Spend(
    metric_calls=900,
    cache_hits=12,
    requests=903,
    tokens=97_200,
    cost=Decimal("0.10"),
    seconds=254.1234,
    by_role={"task": TASK, "proposer": PROPOSER},
)
WINNER = Candidate().set_instruction("classify", "Say the category.").set_demos("classify", [{"gloss": "x"}])
IMPROVED = Comparison(
    rows=160, compared=159, baseline=0.231, winner=0.544, difference=0.313, interval=(0.231, 0.394), wins=60, losses=10
)
RESULT = ResultFile(
    name="wordnet",
    run_dir="runs/wordnet",
    seed=0,
    stop_reason="finished",
    rows=Rows(train=60, val=80, test=160),
    validation=Scores(baseline=0.25, winner=0.575),
    spend=summarize_spend(SPEND),
    test=IMPROVED,
    strategies=(
        summarize_report(
            Report(strategy="bootstrap", best=WINNER, baseline_score=0.25, best_score=0.575, spend=SPEND, notes=("n",))
        ),
    ),
    changes=summarize_candidate(WINNER),
    notes=("3 rows left out",),
)
UNCLEAR = attrs.evolve(IMPROVED, difference=0.01, interval=(-0.02, 0.04), looks=3)


def faults(value: Any, schema: Any, at: str = "$") -> list[str]:
    """Check a value against the part of JSON Schema that the published schema uses."""
    if "anyOf" in schema:
        return [] if any(not faults(value, option, at) for option in schema["anyOf"]) else [f"{at}: none of anyOf"]
    if "const" in schema or "enum" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        return [] if value in allowed else [f"{at}: {value!r} not in {allowed}"]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
    if not any(type(value) in ((int, float) if k == "number" else (types[k],)) for k in kinds):
        return [f"{at}: {value!r} is no {kinds}"]
    if isinstance(value, dict):
        known, rest = schema.get("properties", {}), schema["additionalProperties"]
        found = [f"{at}: no {name}" for name in schema.get("required", []) if name not in value]
        for key, inner in value.items():
            below = known.get(key, rest)
            found += [f"{at}.{key} unknown"] if below is False else faults(inner, below, f"{at}.{key}")
        return found
    if isinstance(value, list):
        sized = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return [] if sized and not [f for v in value for f in faults(v, schema["items"], at)] else [f"{at}: items"]
    if isinstance(value, str):
        return [] if re.search(schema.get("pattern", ""), value) else [f"{at}: {value!r} has another pattern"]
    return [f"{at}: {value} too small"] if value is not None and value < schema.get("minimum", value) else []


@pytest.mark.parametrize(
    "result",
    [
        RESULT,
        attrs.evolve(RESULT, failures=FailureTable(search=FailureSummary(failed=1, by_status={"timed_out": 1}))),
        attrs.evolve(RESULT, test=None, finished=False, stop_reason="interrupted"),
        attrs.evolve(RESULT, changes=(), strategies=(), validation=Scores()),
        attrs.evolve(RESULT, test=Comparison(rows=1, compared=0), spend=summarize_spend(Spend(cost=Decimal("1E-7")))),
    ],
)
def test_what_is_written_fits_the_published_schema(tmp_path: Path, result: ResultFile) -> None:
    """The file validates, and reads back as the value that was written."""
    write_result(result, tmp_path / "result.json")
    form = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert [] == faults(form, result_schema())
    assert result == read_result(tmp_path / "result.json")
    assert ["result.json"] == [p.name for p in tmp_path.iterdir()]


def test_the_schema_refuses_what_is_not_a_result() -> None:
    """A missing key, an unknown one and a wrong type are no result: the check above can fail."""
    form = to_json(RESULT)
    wrong = [
        {**form, "extra": 1},
        {k: v for k, v in form.items() if k != "spend"},
        {**form, "seed": "0"},
        {**form, "outcome": "great"},
        {**form, "spend": {**form["spend"], "cost": 0.1}},
        {**form, "test": {**form["test"], "interval": [1]}},
    ]
    assert [] == [form for form in wrong if not faults(form, result_schema())]


def test_every_key_of_the_file_is_described() -> None:
    """The schema names exactly the keys that are written, at every depth that has fixed keys."""
    schema = result_schema()
    assert set(schema["properties"]) == set(schema["required"]) == set(to_json(RESULT))
    assert {a.name for a in attrs.fields(ResultFile)} < set(schema["properties"])
    assert {a.name for a in attrs.fields(Comparison)} == set(schema["properties"]["test"]["anyOf"][1]["properties"])


def test_an_improvement_is_one_that_the_test_rows_show() -> None:
    """The whole interval above 0, on untouched rows; else "no improvement" is said plainly (honest results)."""
    cases = {
        "improved by +0.313 on untouched test rows": RESULT,
        "no improvement that the test rows can tell from chance (+0.010)": attrs.evolve(RESULT, test=UNCLEAR),
        "no improvement on the test rows (-0.010)": attrs.evolve(RESULT, test=attrs.evolve(UNCLEAR, difference=-0.01)),
        "no improvement: no candidate beat the baseline on the validation rows": attrs.evolve(RESULT, changes=()),
        "not tested: the run ended before its test": attrs.evolve(RESULT, test=None),
        "not tested: too few test rows were scored": attrs.evolve(RESULT, test=Comparison(rows=160, compared=3)),
        "not tested: without test rows nobody knows whether the winner is better on new ones": attrs.evolve(
            RESULT, test=None, rows=Rows(train=60, val=80, test=0)
        ),
    }
    assert [f"wordnet: {words}" for words in cases] == [next(iter(in_words(result))) for result in cases.values()]
    outcomes = ["improved", "no improvement", "no improvement", "no improvement", *["not tested"] * 3]
    assert outcomes == [result.outcome for result in cases.values()]


def test_the_words() -> None:
    """A person reads scores with the interval, what changed, what it cost by role, and how to go on."""
    stopped = attrs.evolve(RESULT, finished=False, stop_reason="interrupted\x1b[2J")
    assert [
        "wordnet: improved by +0.313 on untouched test rows",
        "  test        0.231 → 0.544 on 159 of 160 rows, +0.313 (95% interval +0.231 to +0.394)",
        "  validation  0.250 → 0.575 on 80 rows",
        "  winner      classify: a new text and 1 demo",
        "  spend       900 rollouts · 12 from the cache · 903 requests · 97,200 tokens · $0.1000 and 3 requests of "
        "unknown price · 4:14",
        "              proposer: 3 requests · 5,000 tokens in, 400 out · 3 requests of unknown price",
        "              task: 900 requests · 90,000 tokens in, 1,800 out · $0.1000",
        "  bootstrap   0.250 → 0.575 in 0 new candidates beside the baseline, 900 rollouts; finished",
        "              n",
        r"  stopped     interrupted\x1b[2J; `burnish resume runs/wordnet` goes on with it, and pays nothing twice",
        "  files       runs/wordnet; `burnish show runs/wordnet --prompt` prints the winner",
        "note: 3 rows left out",
    ] == list(in_words(stopped))
    few = attrs.evolve(IMPROVED, rows=1, compared=1)
    assert "0.544 on 1 row," in list(in_words(attrs.evolve(RESULT, test=few)))[1]
    unclear = attrs.evolve(RESULT, test=UNCLEAR)
    assert "look 3 at these rows" in list(in_words(unclear))[1]


AGENT = "agent_failed"
ALL = FailureSummary(rollouts=20, failed=20, by_status={AGENT: 20}, cause="RuntimeError: \x1b", where="test row 0")
SOME = attrs.evolve(ALL, failed=1, by_status={AGENT: 1}, where="test row 3")


def test_failures_are_told() -> None:
    """A cause that struck every rollout is the whole result; one that struck some stands beside it."""
    baseline = attrs.evolve(RESULT, changes=(), failures=FailureTable(test=ALL, test_baseline=ALL))
    first, *rest = in_words(baseline)
    assert r"wordnet: every rollout failed: RuntimeError: \x1b (first in test row 0)" == first
    assert "  failures    20 of 20 test rollouts, most often by this cause" in rest
    assert 1 == "\n".join([first, *rest]).count("RuntimeError")
    assert baseline.strategies
    noted = attrs.evolve(baseline.strategies[0], notes=(f"the first with {ALL.cause}, at once", "other"))
    told = attrs.evolve(baseline, strategies=(noted,), finished=False, stop_reason=f"stopped: 16 x {ALL.cause}")
    assert 1 == "\n".join(in_words(told)).count("RuntimeError")
    assert "  stopped     too many rollouts failed in a row; " in "\n".join(in_words(told))
    assert "failed" == baseline.outcome
    winner = attrs.evolve(RESULT, failures=FailureTable(test=SOME, test_baseline=ALL, search=SOME))
    line = r"1 of 20 test rollouts (20 of the baseline), most often RuntimeError: \x1b (first in test row 3)"
    assert f"  failures    {line}" in list(in_words(winner))
    assert ("improved", None) == (winner.outcome, winner.all_failed)
    assert "improved" == attrs.evolve(RESULT, failures=FailureTable(search_baseline=ALL, search=SOME)).outcome


def test_nothing_scored_is_no_verdict() -> None:
    """A run that was stopped before its first score says no more than that."""
    stopped = attrs.evolve(
        RESULT, changes=(), test=None, validation=Scores(), finished=False, stop_reason="cancelled", strategies=()
    )
    first, *rest = in_words(stopped)
    assert "wordnet: stopped before the program as it is was scored on all validation rows" == first
    assert [] == [line for line in rest if "validation" in line]


def test_what_was_never_compared_is_no_loser() -> None:
    """A run that was cut before a candidate was scored does not say that none beat the baseline, nor does its JSON."""
    cut = attrs.evolve(RESULT, changes=(), test=None, finished=False, stop_reason="cancelled")
    cases = {
        "stopped before any candidate was scored on all validation rows": attrs.evolve(cut, scored_candidates=0),
        "stopped: no candidate of 3 has beaten the baseline so far": attrs.evolve(cut, scored_candidates=3),
        "no improvement: the search came to no candidate that could be compared": attrs.evolve(
            cut, scored_candidates=0, finished=True
        ),
    }
    assert [f"wordnet: {words}" for words in cases] == [next(iter(in_words(result))) for result in cases.values()]
    assert ["not tested", "no improvement", "no improvement"] == [result.outcome for result in cases.values()]


def test_rows_that_may_have_been_seen_show_nothing() -> None:
    """Where a candidate's file does not say what it was found on, no test row is called untouched."""
    assert RESULT.test is not None
    unsure = attrs.evolve(RESULT, test=attrs.evolve(RESULT.test, untouched=False))
    assert "not tested" == unsure.outcome
    assert "wordnet: not tested: nobody knows whether the test rows are new to the candidate" in next(
        iter(in_words(unsure))
    )


def test_what_a_cap_left_unscored_is_no_comparison() -> None:
    """Where a cap ended the search, the verdict says how many rows were scored, not that nothing was better."""
    capped = attrs.evolve(RESULT, changes=(), test=None, stop_reason="budget: max_requests")
    some = [PartlyScored(candidate=2, scored=12, rows=40), PartlyScored(candidate=3, scored=0, rows=40)]
    cases = {
        "candidate 2 was scored on 12 of 40 validation rows when max_requests struck": some[:1],
        "candidate 2 was scored on 12 of 40 validation rows, 1 other on fewer or none, when max_requests struck": some,
        "1 candidate had no score yet when max_requests struck": some[1:],
        "the program as it is was scored on 5 of 40 validation rows when max_requests struck": [
            PartlyScored(candidate=None, scored=5, rows=40)
        ],
    }
    for words, partly in cases.items():
        found = attrs.evolve(capped, partly=tuple(partly))
        assert f"wordnet: no improvement found: {words}" == next(iter(in_words(found)))
        assert [] == faults(to_json(found), result_schema())


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Missing, torn, foreign and newer files each say so."""
    path = tmp_path / "result.json"
    form = to_json(RESULT)
    cases = {
        None: "is not there",
        '{"format": ': "cannot be read",
        "[" * 100_000: "cannot be read",
        f'{{"version": {"9" * 5000}}}': "cannot be read",
        '{"format": "other"}': "is no burnish.result file",
        json.dumps({**form, "version": 2}): "has version 2, this burnish reads 1",
        json.dumps({**form, "rows": {}}): "is damaged",
    }
    for content, expected in cases.items():
        if content is not None:
            path.write_text(content, encoding="utf-8")
        with pytest.raises(StoreError, match=expected):
            read_result(path)
