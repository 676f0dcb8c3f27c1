"""A run's result in words, a line at a time."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from burnish import STORE_FILE
from burnish_cli import text
from burnish_cli.result import (
    Change,
    Comparison,
    FailureSummary,
    ResultFile,
    RoleSummary,
    Scores,
    SpendSummary,
    StrategySummary,
)

AGAIN = "run it again: what the cache holds is not paid twice"


def going_on(run_dir: str | Path) -> str:
    """Say how a run goes on after it was stopped."""
    return f"{text.command('resume', run_dir)} goes on with it, and pays nothing twice"


def next_step(run_dir: Path) -> str:
    """Say what to do about a run that did not come to its end: it goes on where its events are there."""
    return going_on(run_dir) if (run_dir / STORE_FILE).is_file() else AGAIN


def in_words(result: ResultFile) -> Iterator[str]:
    """Say what a run came to, a line at a time."""
    yield f"{text.safe(result.name)}: {verdict(result)}"
    test = result.test
    if test is not None:
        rows = text.count(test.rows, "row")
        compared = f"{test.compared} of {rows}" if test.compared < test.rows else rows
        means = _from_to(test.baseline, test.winner) if result.changes else text.score(test.baseline)
        yield _row("test", f"{means} on {compared}{_interval(test) if result.changes else ''}")
    if result.command == "run" and result.validation != Scores():
        means = _from_to(result.validation.baseline, result.validation.winner)
        yield _row("validation", f"{means} on {text.count(result.rows.val, 'row')}{_chosen(result)}")
    failed = result.all_failed  # its cause is the first line: it is told no second time
    for name, part in (("test", result.failures.test), ("search", result.failures.search)):
        if part.failed:
            yield _row("failures", _failures(name, part, result))
    for change in result.changes:
        yield _row("winner", _change(change))
    yield _row("spend", _spend(result.spend))
    for name, role in result.spend.by_role.items():
        yield _row("", f"{text.safe(name)}: {_role(role)}")
    for searched in result.strategies if result.command == "run" else ():
        yield _row(text.safe(searched.strategy), _strategy(searched))
        for note in searched.notes:
            if failed is None or failed.cause not in note:
                yield _row("", text.safe(note))
    if not result.finished:
        reason = result.stop_reason.removeprefix("stopped: ")
        if failed is not None and failed.cause in reason:
            reason = "too many rollouts failed in a row"
        yield _row("stopped", f"{text.safe(reason)}; {going_on(result.run_dir)}")
    yield _row("files", text.safe(result.run_dir) + (f"; {_see(result)}" if result.changes else ""))
    for note in result.notes:
        yield f"note: {text.safe(note)}"


def _chosen(result: ResultFile) -> str:
    """Say why a winner's validation mean is no measure of it: it was picked for being high."""
    others = result.scored_candidates
    if not result.changes or not others:
        return ""
    return f", the best of {others + 1}: picked by these rows, it looks better on them than it is"


def verdict(result: ResultFile) -> str:
    """Say in one sentence whether there is an improvement, and how that is known."""
    failed = result.all_failed
    if failed is not None:
        return f"every rollout failed: {text.safe(failed.cause)} (first in {text.safe(failed.where)})"
    if not result.changes:
        if result.command == "evaluate":
            return "the program as it is"
        return _unchanged(result)
    untold = result.test is not None and result.test.interval is not None and not result.test.untouched
    if result.outcome == "not tested" and result.rows.test and not untold:
        return "not tested: " + ("too few test rows were scored" if result.test else "the run ended before its test")
    if result.outcome == "not tested" and not untold:
        return "not tested: without test rows nobody knows whether the winner is better on new ones"
    assert result.test is not None
    assert result.test.difference is not None
    if not result.test.untouched:
        return "not tested: nobody knows whether the test rows are new to the candidate, as its file does not say"
    difference = f"{result.test.difference:+.3f}"
    if result.outcome == "improved":
        return f"improved by {difference} on untouched test rows"
    if result.test.difference > 0:
        return f"no improvement that the test rows can tell from chance ({difference})"
    return f"no improvement on the test rows ({difference})"


def _unchanged(result: ResultFile) -> str:
    """Say why there is no winner: what was never compared is no loser."""
    compared = result.scored_candidates
    if not result.finished and result.validation.baseline is None:
        return "stopped before the program as it is was scored on all validation rows"
    if not result.finished and compared == 0:
        return "stopped before any candidate was scored on all validation rows"
    if not result.finished:
        return f"stopped: no candidate{'' if compared is None else f' of {compared}'} has beaten the baseline so far"
    if result.partly:
        return f"no improvement found: {_partly(result)}"
    if compared == 0:
        return "no improvement: the search came to no candidate that could be compared"
    return "no improvement: no candidate beat the baseline on the validation rows"


def _partly(result: ResultFile) -> str:
    part, *others = result.partly
    when = f"when {text.safe(result.stop_reason.removeprefix('budget: '))} struck"
    if part.candidate is not None and not part.scored:
        return f"{text.count(len(result.partly), 'candidate')} had no score yet {when}"
    who = "the program as it is" if part.candidate is None else f"candidate {part.candidate}"
    rest = f", {text.count(len(others), 'other')} on fewer or none," if others else ""
    return f"{who} was scored on {part.scored} of {text.count(part.rows, 'validation row')}{rest} {when}"


def _see(result: ResultFile) -> str:
    return f"{text.command('show', result.run_dir, '--prompt')} prints the winner"


def _failures(name: str, part: FailureSummary, result: ResultFile) -> str:
    baseline = result.failures.test_baseline.failed if name == "test" else result.failures.search_baseline.failed
    whose = f" ({baseline} of the baseline)" if result.changes else ""
    count = f"{part.failed:,} of {part.rollouts:,} {name} rollouts{whose}"
    if result.all_failed is not None and part.cause == result.all_failed.cause:  # it is the result's first line
        return f"{count}, most often by this cause"
    return f"{count}, most often {text.safe(part.cause)} (first in {text.safe(part.where)})"


def _row(name: str, value: str) -> str:
    return f"  {name:<11} {value}"


def _from_to(before: float | None, after: float | None) -> str:
    return f"{text.score(before)} → {text.score(after)}"


def _interval(test: Comparison) -> str:
    if test.interval is None or test.difference is None:
        return ""
    low, high = test.interval
    looks = f", look {test.looks} at these rows" if test.looks > 1 else ""
    return f", {test.difference:+.3f} ({test.confidence:.0%} interval {low:+.3f} to {high:+.3f}{looks})"


def _change(change: Change) -> str:
    parts = ["a new text"] if change.instruction else []
    if change.demos is not None:
        parts.append(text.count(change.demos, "demo"))
    return f"{text.safe(change.name)}: {' and '.join(parts) or 'unchanged'}"


def _spend(spend: SpendSummary) -> str:
    parts = [text.count(spend.rollouts, "rollout")]
    if spend.cached:
        parts.append(f"{spend.cached:,} from the cache")
    parts += [text.count(spend.requests, "request"), text.count(spend.tokens, "token")]
    parts.append(_cost(spend.cost, sum(role.unpriced for role in spend.by_role.values())))
    return " · ".join([*parts, text.clock(spend.seconds)])


def _role(role: RoleSummary) -> str:
    tokens = f"{role.input_tokens:,} tokens in, {role.output_tokens:,} out"
    return " · ".join([text.count(role.requests, "request"), tokens, _cost(role.cost, role.unpriced)])


def _cost(cost: Decimal, unpriced: int) -> str:
    """What nobody knows the price of is not free."""
    unknown = f"{text.count(unpriced, 'request')} of unknown price"
    if not unpriced:
        return text.money(cost)
    return f"{text.money(cost)} and {unknown}" if cost else unknown


def _strategy(part: StrategySummary) -> str:
    new = f"{text.count(max(0, part.candidates - 1), 'new candidate')} beside the baseline"
    made = f"{new}, {text.count(part.rollouts, 'rollout')}"
    return f"{_from_to(part.baseline, part.best)} in {made}; {text.safe(part.stop_reason)}"
