"""Proposals and minibatches: what proposing strategies share."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import burnish as b
from burnish import CallRequest, Parameter, Plan, Report, abc, toolkit
from burnish.errors import ModelServerError, UsageError
from burnish.testing import ScriptedModel

ROWS = [{"q": "x", "a": "x"}]


def asked(
    replies: Any, count: int = 3, known: tuple[str, ...] = (), distinct: bool = True, **options: Any
) -> tuple[list[Any], ScriptedModel]:
    """Ask for some texts in a run; gives the proposals and the proposer."""
    got: list[Any] = []

    async def proposer(task: str) -> dict[str, str]:
        request = abc.LMRequest(messages=(abc.Message("user", task),))
        return {"text": (await b.call_model(b.model_for("task"), request)).text}

    class Asks:
        def plan(self, problem: abc.Problem) -> Plan:
            return Plan(rollouts=0, candidates=0, minimum=0)

        async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
            check = toolkit.text_check(Parameter(name="p"), most_chars=30, leaks=["secret row"])
            got.extend(
                await toolkit.propose(
                    engine,
                    [CallRequest(program=proposer, inputs={"task": f"{n}"}) for n in range(count)],
                    lambda prediction: prediction["text"],
                    [check] * count,
                    known=known,
                    distinct=distinct,
                )
            )
            return Report(strategy="asks", best=problem.start)

    model = ScriptedModel(replies, limits=abc.ModelLimits(key="p", retries=0))
    b.optimize(
        lambda q: q, strategy=Asks(), metric="exact_match", trainset=ROWS, models={"proposer": model},
        concurrency=1, **{"budget": b.Budget(), **options},
    )
    return got, model


def test_what_is_no_use_is_asked_for_again() -> None:
    """Failed, cut off, empty, known, long and leaking replies are asked again, in a bound; the good ones are kept."""
    cut = abc.LMResponse(text="half a", finish_reason="length")
    first, second = ["good", "", ModelServerError("503"), "x" * 31], ["better", "good", cut]
    got, model = asked([*first, *second, "secret row", "best"], 4)
    assert ["good", "better", None, "best"] == [proposal.text for proposal in got]
    assert (9, [0, 1, 3, 2]) == (model.calls, [len(proposal.rejected) for proposal in got])


def test_reasons_are_reported() -> None:
    """Each attempt that was dropped stands in the report with its reason."""
    got, _ = asked(["", "x" * 31, "has a secret row"], 1)
    assert [None] == [proposal.text for proposal in got]
    assert ["it is empty", "it has 31 characters, more than 30", "it holds the training row 'secret row'"] == [
        rejected.reason for rejected in got[0].rejected
    ]


def test_equal_texts_count_once() -> None:
    """Of equal proposals the first counts, blanks aside, and so does what is known already."""
    got, model = asked(["a b", "a  b", "old", "c", "d"], 3, known=("old",))
    assert (["a b", "c", "d"], 5) == ([proposal.text for proposal in got], model.calls)


def test_equal_texts_are_given_where_they_need_not_be_distinct() -> None:
    """Who counts repeats by itself asks for none again; what is no use is asked for again all the same."""
    got, model = asked(["a", "a", "", "old"], 3, known=("old",), distinct=False)
    assert (["a", "a", "old"], 4) == ([proposal.text for proposal in got], model.calls)


def test_a_cap_ends_the_asking() -> None:
    """What does not fit the budget is a proposal without a text, and names the cap."""
    got, model = asked(["a", "b", "c"], 3, budget=b.Budget(max_requests=2))
    assert ["a", "b", None] == [proposal.text for proposal in got]
    assert (None, "max_requests", 2) == (got[0].cap, got[2].cap, model.calls)


def test_checks_of_a_text() -> None:
    """Placeholders stay, unknown ones and lost protected parts are refused."""
    prompt = Parameter(name="p", kind="text", placeholders=("q",))
    check = toolkit.text_check(prompt, protected=["Answer in JSON."])
    assert "it has lost {{q}}" == check("no place. Answer in JSON.")
    assert "it has {{x}}, which the program does not fill in" == check("{{q}} {{ x }} Answer in JSON.")
    assert "it has lost the protected part 'Answer in JSON.'" == check("{{q}}")
    assert None is check("{{q}} Answer in JSON.")
    assert {"a", "b"} == toolkit.placeholders("{{a}} {{ b }} {c} {{d e}}")


@pytest.mark.parametrize(("rows", "size"), [(9, 3), (10, 3), (3, 5), (1, 1)])
def test_no_row_comes_twice_within_an_epoch(rows: int, size: int) -> None:
    """Every epoch shows each row before any comes again; sizes are equal, and a seed gives the same batches."""
    columns = range(100, 100 + rows)

    def batches() -> list[tuple[int, ...]]:
        epochs = toolkit.Epochs(columns, size, lambda purpose: random.Random(purpose))
        return [epochs.draw() for _ in range(3 * -(-rows // size))]

    drawn = batches()
    assert drawn == batches()
    assert {min(rows, size)} == {len(set(batch)) for batch in drawn}
    each = -(-rows // min(rows, size))
    for epoch in (drawn[:each], drawn[each : 2 * each]):
        assert set(columns) == {column for batch in epoch for column in batch}
        assert max(Counter(column for batch in epoch[:-1] for column in batch).values(), default=1) == 1
    with pytest.raises(UsageError):
        toolkit.Epochs([], 3, lambda purpose: random.Random(purpose))
