"""COPRO's algorithm: rounds, attempts, turns, and what is paid."""

from __future__ import annotations

import re
from typing import Any

import pytest

import burnish as b
from burnish import abc
from burnish.errors import UsageError
from burnish_copro import COPRO
from burnish_programs import Module, Predict

from ._task import (
    BASE,
    TRAIN,
    VAL,
    Watched,
    exact,
    is_proposal,
    model,
    prompt_of,
    proposals_in,
    rollouts_in,
    rows,
    run,
    texts_of,
    told,
)


def test_knobs_and_defaults_are_those_that_users_know() -> None:
    """breadth=10, depth=3, init_temperature=1.4, prompt_model."""
    copro = COPRO()
    assert (10, 3, 1.4, None) == (copro.breadth, copro.depth, copro.init_temperature, copro.prompt_model)


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"breadth": 1}, "breadth is 1; it takes a whole number of at least 2"),
        ({"breadth": 2.5}, "breadth"),
        ({"depth": 0}, "depth"),
        ({"init_temperature": float("nan")}, "init_temperature"),
        ({"init_temperature": -1}, "init_temperature"),
        ({"prompt_model": "gpt"}, r"models\.proposer"),
        ({"repeats": 0}, "repeats"),
        ({"feedback_rows": -1}, "feedback_rows"),
    ],
    ids=str,
)
def test_knobs_that_cannot_work_are_refused(knobs: dict[str, Any], why: str) -> None:
    """A breadth of one is an error, and so is what is no number where one is wanted."""
    with pytest.raises(UsageError, match=why):
        COPRO(**knobs)


def test_rounds_of_proposals_from_the_original_then_from_attempts() -> None:
    """breadth - 1 proposals from the text in force, then breadth from attempts in each round; each its own request."""
    scripted = model()
    run(COPRO(breadth=4, depth=3), scripted)
    asked = proposals_in(scripted)
    assert 3 + 4 + 4 == len(asked)
    assert [f"current_instruction: {BASE}" in prompt_of(request) for request in asked] == [True] * 3 + [False] * 8
    assert ["attempts: [instruction 1" in prompt_of(request) for request in asked] == [False] * 3 + [True] * 8
    assert 11 == len({(prompt_of(request), request.sample) for request in asked})
    assert [1.4] * 11 == [request.temperature for request in asked]


def test_attempts_are_shown_in_ascending_order_with_their_scores() -> None:
    """The best `breadth` attempts, the best one last, of equal ones the earliest; the original among them."""
    scripted = model()
    _, report = run(COPRO(breadth=3, depth=4), scripted)
    last = prompt_of(proposals_in(scripted)[-1])
    shown = re.findall(r"\[instruction (\d+), score ([\d.]+)\]\n(.*)", last)
    scores = [float(score) for _, score, _ in shown]
    assert (["1", "2", "3"], sorted(scores)) == ([number for number, _, _ in shown], scores)
    known = {attempt.text: attempt.score for attempt in report.attempts["answer"]}
    assert [known[text] for _, _, text in shown] == scores
    first = prompt_of(proposals_in(scripted)[2])
    assert re.findall(r"\[instruction 1, score ([\d.]+)\]\n(.*)", first)
    assert known[BASE] == report.baseline_score == 0.2


def test_a_round_is_one_fan_out() -> None:
    """The start first, then all new candidates of a turn at once, on all scoring rows."""
    watched = Watched(breadth=4, depth=3)
    _, report = run(watched, model())
    val = tuple(range(len(VAL)))
    assert ((0, val),) == watched.asks[0]
    assert [turn.new for turn in report.turns if turn.new] == [len(ask) for ask in watched.asks[1:]]
    assert all(columns == val for ask in watched.asks for _, columns in ask)


def test_only_unique_work_is_paid() -> None:
    """DSPy paid 1,203 calls of which 603 were unique: a text that is known is neither scored nor asked for again."""
    scripted = model()
    result, report = run(COPRO(breadth=6, depth=3), scripted)
    assert len(set(texts_of(report))) == len(report.candidates)
    assert len(VAL) * len(report.candidates) == len(rollouts_in(scripted)) == result.spend.metric_calls
    assert 5 + 6 + 6 == len(proposals_in(scripted)) == sum(turn.usable for turn in report.turns)
    assert sum(turn.new for turn in report.turns) == len(report.candidates) - 1 < 17
    every = [(prompt_of(request), request.sample) for request in scripted.requests]
    assert len(every) == len(set(every))


def test_every_candidate_is_what_prompts_show() -> None:
    """DSPy searches over output prefixes that no prompt shows: here each candidate's text is in its prompts."""
    scripted = model()
    _, report = run(COPRO(breadth=4, depth=2), scripted)
    heads = {request.messages[0].content.partition("\n\n")[0] for request in rollouts_in(scripted)}
    assert set(texts_of(report)) == heads


def test_useless_replies_are_asked_again_then_dropped() -> None:
    """One unparsable, empty, cut, refused or long reply aborts nothing: the good ones count, reasons are reported."""
    bad: dict[int, Any] = {
        0: "", 1: abc.LMResponse(text="half", finish_reason="length"), 2: "x" * 5000, 1003: ""
    }

    def proposals(request: abc.LMRequest) -> Any:
        if request.sample == 3:
            raise b.errors.ModelRefusedError("no")
        return bad.get(request.sample, f"{BASE} [1] {request.sample}")

    scripted = model(proposals)
    _, report = run(COPRO(breadth=6, depth=1), scripted)
    found = {f"{BASE} [1] {sample}" for sample in (1000, 1001, 1002, 2003, 4)}
    assert {BASE, *found} == set(texts_of(report))
    assert 5 == len(report.rejected)
    reasons = " | ".join(rejected.reason for rejected in report.rejected)
    for why in ("empty", "bound of tokens", "5000 characters, more than 4000", "ModelRefusedError"):
        assert why in reasons


def test_a_provider_that_ignores_n_costs_no_candidate() -> None:
    """Each of `breadth` proposals is a request of its own, so that one reply a request is all that is needed."""
    scripted = model(lambda request: f"{BASE} [1] {request.sample}")
    _, report = run(COPRO(breadth=10, depth=3, feedback_rows=0), scripted, trainset=TRAIN[:2], valset=VAL[:2])
    assert 30 == len(report.candidates)


def test_a_proposer_of_no_use_ends_the_search() -> None:
    """A proposer that always fails ends it after one round: the start is the result, and the reason is told."""
    scripted = model(lambda request: "")
    result, report = run(COPRO(breadth=3, depth=5), scripted)
    assert (True, "no proposal was of use") == (result.candidate.is_empty, report.stop_reason)
    assert 2 * 3 == len(proposals_in(scripted)) == len(report.rejected)
    assert any("6 replies of the proposer were refused, the last because" in note for note in report.notes)


def test_ties_keep_the_earlier_candidate() -> None:
    """Texts that score as the start does leave the program as it is."""
    result, report = run(COPRO(breadth=4, depth=2), model(lambda request: f"{BASE} v{request.sample}"))
    assert (0.2, 0.2, True) == (report.baseline_score, report.best_score, result.candidate.is_empty)


def test_a_perfect_score_ends_the_search() -> None:
    """Nothing can beat the metric's maximum: a perfect start asks for no proposal at all."""
    scripted = model()
    _, report = run(COPRO(), scripted, metric="exact_match", valset=rows(20, kinds=1))
    assert ("perfect score", 0, 1) == (report.stop_reason, len(proposals_in(scripted)), len(report.candidates))


class Two(Module):
    """Two predictors, each of which needs a cue of its own."""

    def __init__(self) -> None:
        self.draft = Predict("question -> draft", BASE)
        self.answer = Predict("question, draft -> answer", BASE)

    async def forward(self, *, question: str) -> Any:
        return await self.answer(question=question, draft=(await self.draft(question=question)).draft)


def two(request: abc.LMRequest) -> str:
    """Write what the instruction says: half the rows need a good draft, the other half a good answer."""
    if is_proposal(request):
        draft = "produce draft" in prompt_of(request)
        return f"{BASE} {'D' if draft else 'E'}{request.sample}"
    head = request.messages[0].content.partition("\n")[0].removeprefix(BASE).strip() or "-"
    if request.layout is not None and request.layout.outputs == ("draft",):
        return head
    return f"{request.messages[-1].content.rpartition('draft: ')[2]} {head}"


def test_each_predictor_is_improved_with_the_others_at_their_best() -> None:
    """A predictor's turn builds on the best so far, that of an earlier turn of the same round included."""

    @b.inline
    def metric(example: Any, prediction: Any) -> float:
        draft, answer = str(prediction.answer).split()
        return 0.5 * (draft == "D1") + 0.5 * (answer == "E1")

    scripted = b.testing.ScriptedModel(two)
    _, report = run(COPRO(breadth=3, depth=2), scripted, program=Two(), metric=metric)
    assert (1.0, {"draft": f"{BASE} D1", "answer": f"{BASE} E1"}) == (
        report.best_score, {name: overlay.instruction for name, overlay in report.best.overlays.items()}
    )
    first, second = (report.candidates[1:3], report.candidates[3:5])
    assert [["draft"], ["draft"]] == [list(entry.candidate.overlays) for entry in first]
    assert all(entry.candidate.overlays["draft"].instruction == f"{BASE} D1" for entry in second)
    assert [0, 0, 2, 2] == [entry.parent for entry in report.candidates[1:5]]
    assert {0.0, 0.5, 1.0} >= {attempt.score for attempt in report.attempts["draft"]}


@pytest.mark.slow
def test_a_round_takes_little_more_than_its_calls() -> None:
    """All that is independent is asked at once: at eight slots it takes at most 1.15 of the floor of its own calls."""
    for metric in (exact, told):
        watched, scripted = Watched(breadth=10, depth=3), model()
        run(watched, scripted, valset=rows(20, each=8), metric=metric)
        together = [9, 10, 10] + [sum(len(columns) for _, columns in ask) for ask in watched.asks]
        assert scripted.calls == sum(together)
        assert sum(-(-calls // 8) for calls in together) <= 1.15 * scripted.calls / 8


def test_metrics_feedback_on_train_rows_reaches_proposers() -> None:
    """Mistakes of the best candidate are shown from train rows, never from validation rows; 0 turns it off."""
    scripted = model()
    _, report = run(COPRO(breadth=3, depth=4), scripted, metric=told)
    shown = [prompt_of(request) for request in proposals_in(scripted)]
    assert ("mistakes: - {" in shown[0], 1.0) == (True, report.best_score)
    assert not any(row["question"] in prompt for row in VAL for prompt in shown)
    assert any(row["question"] in prompt for row in TRAIN for prompt in shown)
    for feedback_rows, metric in ((0, told), (8, exact)):
        plain = model()
        run(COPRO(breadth=3, depth=2, feedback_rows=feedback_rows), plain, metric=metric)
        assert not any("mistakes" in request.messages[-1].content for request in proposals_in(plain))
        asked = " ".join(prompt_of(request) for request in rollouts_in(plain))
        assert not any(row["question"] in asked for row in TRAIN)


def test_without_validation_rows_train_rows_score() -> None:
    """They score, they show their mistakes for nothing, and the report says what that means."""
    scripted = model()
    result, report = run(COPRO(breadth=3, depth=2), scripted, metric=told, valset=None)
    assert tuple(range(len(TRAIN))) == report.scored_on
    assert result.spend.metric_calls == len(TRAIN) * len(report.candidates)
    assert "mistakes: - {" in prompt_of(proposals_in(scripted)[0])
    assert any("test rows say what it is worth" in note for note in report.notes)


def test_text_of_a_train_row_is_no_instruction() -> None:
    """A proposal that holds a train row's text is refused: what was learnt by heart would score well and be no use."""
    secret = "Q1-77 which is a question long enough to be no chance"
    train = [*TRAIN, {"question": secret, "answer": "A1-77"}]
    scripted = model(lambda request: f"{BASE} [1] {secret if request.sample < 9 else ''}")
    _, report = run(COPRO(breadth=2, depth=1), scripted, trainset=train)
    assert [BASE, f"{BASE} [1]"] == texts_of(report)
    assert ["it holds the training row"] == [rejected.reason[:25] for rejected in report.rejected]


def test_repeats_sample_each_row() -> None:
    """Each row is scored so often; scores in the report are means by row."""
    scripted = model()
    result, report = run(COPRO(breadth=2, depth=1, repeats=3), scripted)
    assert 3 * len(VAL) * len(report.candidates) == result.spend.metric_calls
    assert [len(VAL)] * len(report.candidates) == [len(entry.scores) for entry in report.candidates]
