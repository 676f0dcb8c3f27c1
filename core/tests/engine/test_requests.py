"""What a request may look like, what it is refused for, and what it gives back."""

from __future__ import annotations

from datetime import date
from typing import Any

import attrs
import pytest

import burnish as b
from burnish import BudgetExhausted, Complete, EngineConfig, EvalEngine, Promoted, Rejected, Undecided
from burnish._runtime.target import check_candidate, check_overlay
from burnish.abc import InputField
from burnish.errors import RowError, UnknownIndexError, UnknownParameterError, UsageError

from ._kit import Ambient, Module, always, as_said, echo, evaluated, rows, tenth, told


def test_an_engine_owns_its_examples() -> None:
    """E1, E15: rows, registry, matrix, spend and configuration are there to read; the whole row is the identity."""
    given = [{"q": 1, "gold": "a"}, {"q": 1, "gold": "b"}]
    engine = EvalEngine(given, tenth)
    assert (given, 2, 0) == (engine.examples, engine.num_examples, engine.num_candidates)
    first, second = engine._evaluator.examples
    assert first.uid != second.uid
    assert (0, b.Spend()) == (engine.matrix.candidates, attrs.evolve(engine.spend, seconds=0))
    candidate = told("answer", "x")
    index = engine.register(candidate)
    assert (candidate, candidate.stable_hash) == (engine.candidate(index), engine.candidate_hash(index))


def test_a_configuration_is_a_plain_value() -> None:
    """E19: 16 at once, no cap, salt 0; a concurrency below 1 is taken as 1 (E10)."""
    config = EngineConfig()
    assert (16, b.Budget(), 0, 16) == (config.concurrency, config.budget, config.cache_salt, b.DEFAULT_EVAL_CONCURRENCY)
    assert EngineConfig() == config
    assert 1 == EngineConfig(concurrency=0).concurrency


@pytest.mark.parametrize("bad", [float("nan"), {1, 2}, object(), {1: "key"}])
def test_a_row_without_an_identity_is_refused(bad: Any) -> None:
    """E2, WE: such rows would share one identity; they are refused at construction, by index."""
    with pytest.raises(RowError, match="row 1") as caught:
        EvalEngine([{"q": 0}, {"q": bad}], tenth)
    assert 1 == caught.value.row


async def test_identical_rows_run_once() -> None:
    """E3: rows of one content keep columns of their own. The seed ran both; here equal requests run once."""
    program, engine = Ambient(echo), EvalEngine([{"q": 5}, {"q": 5}, {"q": 6}], tenth)
    index = engine.register(b.Candidate())
    evaluation = evaluated(await engine.evaluate(program, index))
    assert ([5, 6], [0.5, 0.5, 0.6]) == (sorted(program.ran), evaluation.scores())
    assert ([0.5, 0.5, 0.6], 2, 1) == (engine.matrix.row(0), engine.spend.metric_calls, engine.spend.cache_hits)
    assert [False, True, False] == [r.cached for r in evaluation.rollouts]
    assert all(r.trace is not None for r in evaluation.rollouts)
    capped = EvalEngine([{"q": 5}, {"q": 5}], tenth, EngineConfig(budget=b.Budget(max_metric_calls=1)))
    assert isinstance(await capped.evaluate(program, capped.register(b.Candidate())), Complete)


def test_registering_is_by_content() -> None:
    """E4: the same content gives the same index; names are not checked here."""
    engine = EvalEngine(rows(1), tenth)
    first = engine.register(told("a", "x").set_instruction("b", "y"))
    assert first == engine.register(told("b", "y").set_instruction("a", "x"))
    assert 1 == engine.register(told("nobody", "x"))
    assert (2, 2) == (engine.num_candidates, engine.matrix.candidates)


async def test_without_a_subset_all_rows_in_order() -> None:
    """E5: None is the full set, ascending."""
    engine = EvalEngine(rows(3), tenth)
    evaluation = evaluated(await engine.evaluate(Ambient(echo), engine.register(b.Candidate()), None))
    assert [0, 1, 2] == [r.example for r in evaluation.rollouts]


async def test_wrong_indices_are_refused_before_the_budget() -> None:
    """E6: candidate first, then the first example out of range; nothing is applied, asked or spent."""
    module = Module()
    engine = EvalEngine(rows(2), tenth, EngineConfig(budget=b.Budget(max_metric_calls=0)))
    with pytest.raises(UnknownIndexError, match="candidate index 7 is not registered"):
        await engine.evaluate(module, 7, [9])
    index = engine.register(b.Candidate())
    with pytest.raises(UnknownIndexError, match=r"example index 5 out of range \(2 examples\)"):
        await engine.evaluate(module, index, [1, 5, 9])
    with pytest.raises(UnknownIndexError, match=r"example index -1"):
        await engine.evaluate(module, index, [-1])
    for bad in (lambda: engine.candidate(7), lambda: engine.candidate_hash(-1)):
        with pytest.raises(UnknownIndexError, match="is not registered"):
            bad()
    assert (0, 0) == (module.ran, engine.spend.metric_calls)


async def test_an_unknown_predictor_is_refused_even_when_cached() -> None:
    """E7: the seed let a fully cached batch pass; here a name that the program lacks is refused in any case."""
    engine, program = EvalEngine(rows(2), tenth), Ambient(echo)
    index = engine.register(told("nobody", "x"))
    with pytest.raises(UnknownParameterError, match="predictor `nobody` not found; the program has: `answer`"):
        await engine.evaluate(program, index)
    assert ([], 0) == (program.ran, engine.spend.metric_calls)


async def test_a_strategy_is_refused_an_unknown_predictor_at_once() -> None:
    """The engine that a strategy sees refuses it at `register`."""
    engine = b.Engine(EvalEngine(rows(1), tenth)._evaluator, Ambient(echo))
    with pytest.raises(UnknownParameterError, match="`nobody`"):
        engine.register(told("nobody", "x"))


async def test_an_empty_subset_is_complete() -> None:
    """E8: no rollout, mean 0.0, nothing spent, whatever the budget."""
    engine = EvalEngine(rows(2), tenth, EngineConfig(budget=b.Budget(max_metric_calls=0)))
    module = Module()
    evaluation = evaluated(await engine.evaluate(module, engine.register(b.Candidate()), []))
    assert ((), 0.0, 1.0, 0) == (evaluation.rollouts, evaluation.mean(), evaluation.coverage, module.ran)


async def test_no_candidates_are_complete() -> None:
    """An empty list of candidates gives no evaluation."""
    engine = EvalEngine(rows(2), tenth)
    assert Complete(()) == await engine.evaluate_many(Ambient(echo), [])


async def test_duplicates_run_once() -> None:
    """E9, WE: an index named twice runs once and is charged once; each position has the eval and the trace."""
    program, engine = Ambient(echo), EvalEngine(rows(3), tenth, EngineConfig(budget=b.Budget(max_metric_calls=2)))
    index = engine.register(b.Candidate())
    evaluation = evaluated(await engine.evaluate(program, index, [2, 1, 2, 2]))
    assert ([0.2, 0.1, 0.2, 0.2], [1, 2]) == (evaluation.scores(), sorted(program.ran))
    assert all(r.trace is not None for r in evaluation.rollouts)
    again = evaluated(await engine.evaluate(program, index, [2, 2]))
    assert ([0.2, 0.2], 2, 1) == (again.scores(), engine.spend.metric_calls, engine.spend.cache_hits)
    outcome = await engine.evaluate_many(program, [index, index], [1, 1])
    assert isinstance(outcome, Complete)
    assert [[0.1, 0.1]] * 2 == [e.scores() for e in outcome.evaluations]
    refused = await engine.evaluate(program, index, [0, 0])
    assert isinstance(refused, BudgetExhausted)
    assert 1 == refused.needed


async def test_only_the_unknown_part_counts() -> None:
    """E27: with 2 of 5 rows known, room for 3 is enough; with room for 2 nothing runs."""
    for room, fits in ((3, True), (2, False)):
        engine = EvalEngine(rows(5), tenth, EngineConfig(budget=b.Budget(max_metric_calls=2 + room)))
        program, index = Ambient(echo), engine.register(b.Candidate())
        await engine.evaluate(program, index, [1, 3])
        outcome = await engine.evaluate(program, index)
        assert fits is isinstance(outcome, Complete)
        assert fits or outcome == BudgetExhausted(needed=3, cap="max_metric_calls")
        assert 2 + room * fits == engine.spend.metric_calls


async def test_a_gate_needs_strictly_more() -> None:
    """E45: equal is rejected; promotion costs the rest of the rows, the minibatch is served."""
    engine, program = EvalEngine(rows(4), always), Ambient(echo)
    index = engine.register(b.Candidate())
    assert isinstance(await engine.evaluate_gated(program, index, [0, 1], 1.0), Rejected)
    promoted = await engine.evaluate_gated(program, index, [0, 1], 0.99)
    assert isinstance(promoted, Promoted)
    assert (4, 4) == (engine.spend.metric_calls, engine.spend.cache_hits)


async def test_an_empty_minibatch_has_mean_zero() -> None:
    """E47: promoted exactly when the threshold is below 0."""
    engine = EvalEngine(rows(1), always)
    index = engine.register(b.Candidate())
    assert isinstance(await engine.evaluate_gated(Ambient(echo), index, [], 0.0), Rejected)
    assert isinstance(await engine.evaluate_gated(Ambient(echo), index, [], -0.1), Promoted)


async def test_an_unscored_minibatch_decides_nothing() -> None:
    """A mean over the rows that happened to be scored is no verdict."""

    async def broken(q: Any, instruction: str) -> Any:
        if q == 1:
            raise b.errors.ModelConnectionError("no route")
        return q

    engine = EvalEngine(rows(3), always)
    outcome = await engine.evaluate_gated(Ambient(broken), engine.register(b.Candidate()), [0, 1], 0.5)
    assert isinstance(outcome, Undecided)
    assert [1.0, None] == outcome.minibatch.scores()


async def test_outcomes_carry_what_the_page_says() -> None:
    """E44: rollouts in request order; `completed()` gives the payload or None."""
    engine = EvalEngine(rows(2), tenth, EngineConfig(budget=b.Budget(max_metric_calls=4)))
    index, other = engine.register(b.Candidate()), engine.register(told("answer", "x"))
    single = await engine.evaluate(Ambient(echo), index)
    assert isinstance(single.completed(), b.CandidateEval)
    many = await engine.evaluate_many(Ambient(echo), [other, index])
    assert isinstance(many, Complete)
    assert [other, index] == [e.candidate for e in many.completed()]  # type: ignore[union-attr]
    assert BudgetExhausted(3).completed() is None  # type: ignore[func-returns-value]


async def test_traces_are_served_where_they_are_kept() -> None:
    """E35: the seed served scores alone, ever; here `keep_traces` keeps them, and who asks for traces gets them."""
    for keep, ran in (("all", 2), ("none", 4)):
        program, engine = Ambient(echo), EvalEngine(rows(2), tenth, EngineConfig(keep_traces=keep))  # type: ignore[arg-type]
        index = engine.register(b.Candidate())
        await engine.evaluate(program, index)
        served = evaluated(await engine.evaluate(program, index))
        assert [keep == "all"] * 2 == [r.trace is not None for r in served.rollouts]
        outcome = await engine._evaluator.evaluate_many(program, [(index, [0, 1])], traces=True)
        assert all(r.trace is not None for r in evaluated(outcome).rollouts)
        assert ran == len(program.ran)


async def test_annotations_may_be_any_expression() -> None:
    """An annotation that cannot be read checks nothing, and takes no input away."""

    async def program(q: 3 | None, more: int = 1) -> Any:  # type: ignore[valid-type]
        return q

    engine = EvalEngine([{"q": 0.5, "gold": "x"}], as_said)
    assert [0.5] == evaluated(await engine.evaluate(program, engine.register(b.Candidate()))).scores()


async def test_the_metric_sees_whose_rollout_it_is() -> None:
    """E17: the trace names the candidate by hash."""
    seen: list[int | None] = []

    @b.inline
    def metric(example: Any, prediction: Any, trace: b.Trace) -> float:
        seen.append(trace.meta.candidate_hash)
        return 1.0

    engine = EvalEngine(rows(1), metric)
    index = engine.register(told("answer", "x"))
    await engine.evaluate(Ambient(echo), index)
    assert [engine.candidate_hash(index)] == seen


@attrs.frozen
class Row:
    q: int
    when: date
    gold: str = "x"


async def test_rows_reach_the_program_by_field_name() -> None:
    """E62: the program gets the fields it names, as the row holds them; the rest is the metric's; pairs are rows."""

    class Dated(Ambient):
        async def run(self, inputs: Any, candidate: b.Candidate) -> Any:
            self.ran.append(dict(inputs))
            return 1

    program = Dated(echo)
    program.inputs = [InputField(name="q"), InputField(name="when"), InputField(name="hint", required=False)]
    day = date(2026, 1, 2)
    given = [Row(1, day), {"q": 2, "when": day, "gold": "x"}, ({"q": 3, "when": day}, {"q": "out"})]
    engine = EvalEngine(given, as_said)
    evaluated(await engine.evaluate(program, engine.register(b.Candidate())))
    assert [{"q": q, "when": day} for q in (1, 2, 3)] == sorted(program.ran, key=lambda inputs: int(inputs["q"]))


async def test_a_row_that_the_program_cannot_take_is_refused() -> None:
    """E62: a missing field names row and field, a mistyped one both types; nothing has run."""

    def program(q: int) -> int:
        raise AssertionError("nothing may run")

    for bad, message in (
        ({"p": 1}, "row 1 has no field `q`, which the program needs; it has `p`"),
        ({"q": "one"}, "row 1, field `q`: the program takes int, the row holds str 'one'"),
        ({"q": True}, "row 1, field `q`: the program takes int, the row holds bool True"),
    ):
        engine = EvalEngine([{"q": 0}, bad], always)
        with pytest.raises(RowError) as caught:
            await engine.evaluate(program, engine.register(b.Candidate()))
        assert message == str(caught.value)
        assert (1, "q", 0) == (caught.value.row, caught.value.field, engine.spend.metric_calls)


class Anything:
    """A program that takes any input by name."""

    async def __call__(self, **inputs: Any) -> Any:
        return inputs["q"]

    async def method(this, **inputs: Any) -> Any:
        return inputs["q"]

    async def free(self, /, **inputs: Any) -> Any:
        return inputs["self"]


@b.inline
def free(**inputs: Any) -> Any:
    return inputs["self"]


async def test_a_row_whose_field_is_named_as_the_program_itself_is_refused() -> None:
    """`program(self=...)` cannot be called: that is said before anything runs, and only where it is so (E62)."""
    for program, name in ((Anything(), "self"), (Anything().method, "this")):
        engine = EvalEngine([{"q": 1}, {"q": 2, name: 3}], always)
        with pytest.raises(RowError, match=f"row 1, field `{name}`: .* rename the field") as caught:
            await engine.evaluate(program, engine.register(b.Candidate()))
        assert (1, name, 0) == (caught.value.row, caught.value.field, engine.spend.metric_calls)
    for fine in (Anything().free, free):
        engine = EvalEngine([{"self": 1, "function": 2}], as_said)
        assert [1.0] == evaluated(await engine.evaluate(fine, engine.register(b.Candidate()))).scores()


def test_values_that_are_not_offered_are_refused() -> None:
    """An overlay changes only what its parameter offers: a kind that it names, and one of the choices if it has any."""
    parameter = b.Parameter(name="answer", values={"model": ("small", "large"), "note": ()})
    for kind, value in (("model", "large"), ("note", 5)):
        check_overlay(parameter, b.Overlay(values={kind: value}))
    with pytest.raises(UsageError, match="`answer` takes no `model` 'huge'; it offers 'small', 'large'"):
        check_overlay(parameter, b.Overlay(values={"model": "huge"}))
    with pytest.raises(UsageError, match="`answer` takes no `tone` 'dry'; it offers 'model', 'note'"):
        check_overlay(parameter, b.Overlay(values={"tone": "dry"}))


def test_demos_for_a_text_are_refused() -> None:
    """A text parameter has no demos: a candidate that gives it some would be scored as if it had not."""
    program = Ambient(echo)
    program.parameters = lambda: {"answer": b.Parameter(name="answer", kind="text")}  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="`answer` is a text and takes no demos"):
        check_candidate(program, b.Candidate().set_demos("answer", [{"q": 1}]))
