"""Strategies made of strategies: in a row on one engine, and side by side at equal shares of the budget."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import burnish as b
from burnish import Plan, Report, abc, toolkit
from burnish._builtin import composed

from ._kit import Leaf, Module, cut, told
from ._search import Tries, instruction, program, say, split, tune


@attrs.frozen(kw_only=True)
class Climbs:
    """Try texts in chains of two; note what it is told, and what it sees of the engine meanwhile."""

    texts: tuple[str, ...]
    replay_version = 1
    log: list[Any] = attrs.field(factory=list, eq=False)

    def plan(self, problem: abc.Problem) -> Plan:
        rows = len(problem.val)
        return Plan(rollouts=(1 + len(self.texts)) * rows, candidates=len(self.texts), minimum=2 * rows, note="climbs")

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        self.log.clear()
        before = engine.spend
        start = engine.register(problem.start)
        first = await engine.evaluate_many([(start, problem.val)])
        found = [] if isinstance(first, b.BudgetExhausted) else [(first.evaluation.mean() or 0.0, problem.start)]
        self.log.append((start, engine.remaining, engine.matrix.candidates))

        async def step(index: int, candidate: b.Candidate) -> tuple[float | None, b.Candidate]:
            outcome = await engine.evaluate_many([(index, problem.val)])
            if isinstance(outcome, b.BudgetExhausted):
                return None, candidate
            return outcome.evaluation.mean(), candidate

        async with engine.lagged("climb", lag=2) as chains:
            for text in self.texts:
                for mean, candidate in await chains.turn():
                    found += [] if mean is None else [(mean, candidate)]
                self.log.append((text, chains.remaining, len(found)))
                candidate = told("answer", text)
                if not chains.start(partial(step, engine.register(candidate), candidate), bound=len(problem.val)):
                    break
            found += [(mean, candidate) for mean, candidate in await chains.rest() if mean is not None]
        self.log.append((engine.remaining, engine.matrix.candidates, engine.frontier(problem.val)))
        best = max(found, key=lambda pair: pair[0], default=(0.0, problem.start))
        entries = [b.CandidateEntry(index=n, candidate=c, origin="tried", mean=m) for n, (m, c) in enumerate(found)]
        return Report(strategy="climbs", best=best[1], best_score=best[0], candidates=tuple(entries),
                      spend=toolkit.spend_between(before, engine.spend))


def slowly() -> Module:
    """Make a program that takes a time of its own for each text."""

    async def answer(q: Any, text: str) -> float:
        await trio.sleep(int(float(text) * 100) * 7 % 5 / 2000)
        return float(await say(q, text))

    return Module(answer, answer=Leaf("0.1"))


SETS = split(train=2, val=4)


def test_a_list_of_strategies_and_a_sequential_one_do_the_same() -> None:
    """Each stage starts from the best so far; the composed report holds those of its stages."""
    chain = [Tries("0.3", "0.2"), Tries("0.5")]
    listed, composed_ = tune(program(), chain, SETS), tune(program(), b.Sequential(strategies=chain), SETS)
    assert (listed.candidate, listed.baseline, listed.best) == (composed_.candidate, composed_.baseline, composed_.best)
    assert chain[1].problem is not None
    assert ["0.5", "0.3"] == [instruction(listed.candidate), instruction(chain[1].problem.start)]
    (report,) = composed_.reports
    assert isinstance(report, b.ComposedReport)
    assert [r.best for r in listed.reports] == [part.best for part in report.parts]
    assert listed.spend.metric_calls == composed_.spend.metric_calls == report.spend.metric_calls


def test_plans_add_up() -> None:
    """A composition may ask what its parts may ask together; a portfolio needs each part's round at an equal share."""
    parts = Climbs(texts=("0.2",)), Climbs(texts=("0.2", "0.3"))
    problem = abc.Problem(parameters={}, train=(4,), val=(0, 1, 2, 3), start=b.Candidate(), metric=abc.MetricInfo())
    row, race = b.Sequential(strategies=parts).plan(problem), b.Portfolio(strategies=parts).plan(problem)
    assert (20, 3, 8) == (row.rollouts, row.candidates, row.minimum)
    assert (20 + 3 * 4, 3, 16) == (race.rollouts, race.candidates, race.minimum)
    assert "Climbs: climbs; Climbs: climbs" == row.note
    assert 24 == b.Sequential(strategies=parts, shares=(1, 2)).plan(problem).minimum


def test_a_budget_that_gives_no_share_a_round_is_refused() -> None:
    """Half of it must let each do one round; nothing is spent."""
    race = b.Portfolio(strategies=[Climbs(texts=("0.2",)), Climbs(texts=("0.3",))])
    with pytest.raises(b.errors.BudgetRefusedError) as caught:
        tune(program(), race, SETS, budget=b.Budget(max_metric_calls=15))
    assert 16 == caught.value.needed


def test_shares_bound_the_stages() -> None:
    """A stage with a quarter of the budget tries what that buys; what it leaves goes to the next one."""
    first, second = Climbs(texts=("0.2", "0.3", "0.4")), Climbs(texts=("0.5", "0.6", "0.7", "0.8"))
    stages = b.Sequential(strategies=[first, second], shares=(1, 3))
    result = tune(program(), stages, SETS, budget=b.Budget(max_metric_calls=32))
    assert [("0.2", 4, 1), ("0.3", 0, 1)] == first.log[1:3]
    assert "0.8" == instruction(result.candidate)
    assert 24 == result.spend.metric_calls


@pytest.mark.parametrize("concurrency", [1, 16])
def test_each_entrant_does_what_it_would_do_alone(concurrency: int) -> None:
    """With its share of the budget, whatever the other one asks for and whichever comes first (R5)."""
    texts = ("0.2", "0.3", "0.9", "0.4"), ("0.3", "0.5", "0.2", "0.6", "0.7")
    budget = b.Budget(max_metric_calls=32)
    race = [Climbs(texts=some) for some in texts]
    result = tune(slowly(), b.Portfolio(strategies=race), SETS, budget=budget, concurrency=concurrency)
    for entrant, some in zip(race, texts, strict=True):
        alone = Climbs(texts=some)
        tune(slowly(), alone, SETS, budget=b.Budget(max_metric_calls=16), concurrency=1)
        assert [line[:2] for line in alone.log] == [line[:2] for line in entrant.log]
        assert alone.log[-1] == entrant.log[-1]
    assert "0.9" == instruction(result.candidate)
    # the start, 0.2 and 0.3 are asked for by both and run once
    assert (4 * (2 * 4 - 3), 0.9) == (result.spend.metric_calls, result.best)


def test_a_portfolio_reports_its_entrants() -> None:
    """Candidates stand once, under the run's own numbers; spend is what ran, told by entrant too."""
    race = b.Portfolio(strategies=[Climbs(texts=("0.2", "0.3")), Climbs(texts=("0.3", "0.4"))])
    (report,) = tune(program(), race, SETS).reports
    assert isinstance(report, b.ComposedReport)
    assert ["", "0.2", "0.3", "0.4"] == sorted(instruction(entry.candidate) for entry in report.candidates)
    assert len(report.candidates) == len({entry.index for entry in report.candidates})
    assert 16 == report.spend.metric_calls == sum(part.spend.metric_calls for part in report.parts)
    assert (0.1, 0.4, ["climbs"]) == (report.baseline_score, report.best_score, report.facts["wins"])


def test_what_an_entrant_is_refused_is_told_by_its_name() -> None:
    """The whole budget has room; the share has none: the cap is called `share`."""

    class Greedy(Climbs):
        async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
            indices = [engine.register(told("answer", text)) for text in self.texts]
            outcome = await engine.evaluate_many([(index, problem.val) for index in indices])
            assert isinstance(outcome, b.BudgetExhausted)
            assert ("share", 4, 2) == (outcome.cap, outcome.needed, len(outcome.partial or ()))  # type: ignore[arg-type]
            assert (0, "share") == (engine.remaining, engine.scarce)
            again = await engine.evaluate_many([(indices[0], problem.val)])
            assert isinstance(again, b.Complete), "what it knows costs nothing"
            with pytest.raises(b.errors.UnknownIndexError):
                await engine.evaluate_many([(99, problem.val)])
            gate = await engine.evaluate_gated(indices[0], problem.val[:1], 0.15, full=problem.val)
            assert isinstance(gate, b.Promoted)
            return Report(strategy="greedy", best=problem.start)

    race = b.Portfolio(strategies=[Greedy(texts=("0.2", "0.3", "0.4")), Climbs(texts=("0.5",))])
    assert "0.5" == instruction(tune(program(), race, SETS, budget=b.Budget(max_metric_calls=16)).candidate)


def test_what_is_no_strategy_is_refused_where_it_stands() -> None:
    """A name among objects, a class, an empty list: said by place, before any run."""
    with pytest.raises(b.errors.UsageError, match=r"strategies\[1\].*a str is no strategy.*Use\(\"portfolio\""):
        b.Portfolio(strategies=[Tries("0.2"), "gepa"])  # type: ignore[list-item]
    with pytest.raises(b.errors.UsageError, match="is empty"):
        b.Sequential(strategies=())
    with pytest.raises(b.errors.UsageError, match="`shares` is"):
        b.Sequential(strategies=[Tries("0.2")], shares=(0,))


@attrs.frozen(kw_only=True)
class _Options:
    text: str = "0.2"


class _Plugin:
    """Offers `tries`."""

    @b.hookimpl
    def burnish_strategies(self) -> Iterable[b.Spec[abc.Strategy]]:
        @asynccontextmanager
        async def opened(options: _Options, env: abc.Environment) -> AsyncIterator[Tries]:
            yield Tries(options.text)

        return [b.Spec(name="tries", open=opened, options=_Options)]


def test_parts_have_names_and_options_as_in_a_configuration_file() -> None:
    """`strategies = ["tries", { use = "tries", text = "0.4" }]`, nested as deep as one likes."""
    plugins = b.PluginManager(discover=False)
    plugins.register(_Plugin())
    plugins.register(composed)
    inner = {"use": "sequential", "strategies": [b.Use("tries", text="0.4"), "tries"], "shares": [1, 1]}
    result = tune(program(), b.Use("portfolio", strategies=["tries", inner]), SETS, plugins=plugins)
    assert "0.4" == instruction(result.candidate)
    with pytest.raises(b.errors.ConfigError, match="text: expected text, got a whole number"):
        tune(program(), b.Use("portfolio", strategies=[{"use": "tries", "text": 4}]), SETS, plugins=plugins)


def test_another_part_is_another_run(tmp_path: Path) -> None:
    """R14: a run that begins again names the strategies, with those inside others."""
    tune(program(), b.Portfolio(strategies=[Climbs(texts=("0.2",))]), SETS, run_dir=tmp_path / "run")
    other = b.Portfolio(strategies=[Climbs(texts=("0.3",))])
    with pytest.raises(b.errors.ResumeRefusedError, match="a strategy, its options"):
        tune(program(), other, SETS, run_dir=tmp_path / "run", resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 16])
def test_compositions_that_were_cut_anywhere_go_on(tmp_path: Path, concurrency: int) -> None:
    """Killed at any event, a portfolio of chains before a further stage goes on as it would have: the same asks."""
    texts = ("0.2", "0.3", "0.9", "0.4"), ("0.3", "0.5", "0.2", "0.6", "0.7")

    def run(place: Path, **options: Any) -> tuple[list[Any], b.Result]:
        parts = [*(Climbs(texts=some) for some in texts), Climbs(texts=("0.8", "0.95"))]
        strategy = b.Sequential(strategies=[b.Portfolio(strategies=parts[:2]), parts[2]], shares=(2, 1))
        result = tune(
            slowly(), strategy, SETS, budget=b.Budget(max_metric_calls=60), run_dir=place, concurrency=concurrency,
            **options,
        )
        return [part.log for part in parts], result

    logs, result = run(tmp_path / "run")
    assert "0.95" == instruction(result.candidate)
    with sqlite3.connect(tmp_path / "run" / "run.db") as connection:
        (last,) = connection.execute("SELECT MAX(n) FROM events").fetchone()
    connection.close()
    for after in range(2, last, max(1, last // 12)):
        place = cut(tmp_path / "run", tmp_path / f"cut {after}", after)
        again, found = run(place, resume=True)
        assert logs == again, after
        assert result.candidate == found.candidate
