"""`result.json`: what a run came to, for machines. Its schema is published in `schema/`; `words` says it for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import attrs
import cattrs

from burnish import Candidate, Failures, Report, Result, Spend, json_text, write_atomic
from burnish.errors import StoreError

FORMAT = "burnish.result"
VERSION = 1
Command = Literal["run", "evaluate"]
Outcome = Literal["improved", "no improvement", "not tested", "failed"]


@attrs.frozen(kw_only=True)
class Rows:
    """How many rows each split has."""

    train: int
    val: int
    test: int


@attrs.frozen(kw_only=True)
class Scores:
    """Means of baseline and winner on the validation rows, which the search has seen."""

    baseline: float | None = None
    winner: float | None = None


@attrs.frozen(kw_only=True)
class Comparison:
    """Baseline and winner on the untouched test rows, row by row against each other."""

    rows: int
    compared: int
    """Rows where both have a score."""
    baseline: float | None = None
    """Means over the compared rows."""
    winner: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    """Paired interval of the difference; None below two compared rows."""
    confidence: float = 0.95
    wins: int = 0
    """Rows where the winner scored higher."""
    losses: int = 0
    looks: int = 1
    """How often a run has scored some of these test rows: each look makes the interval less trustworthy."""
    fingerprint: str = ""
    """Of the test rows' content: the same rows, the same text."""
    digests: str = ""
    """`burnish.row_digests` of the test rows, with blanks between: by them a later run knows a row again."""
    untouched: bool = True
    """False where nobody knows whether the search that found the candidate has used these rows."""


@attrs.frozen(kw_only=True)
class RoleSummary:
    """What one role's calls have cost."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost: Decimal
    unpriced: int = 0
    """Requests whose price nobody knows; they are not in `cost`."""


@attrs.frozen(kw_only=True)
class SpendSummary:
    """What the run has cost, in total and by role."""

    rollouts: int
    cached: int
    requests: int
    tokens: int
    cost: Decimal
    seconds: float
    by_role: Mapping[str, RoleSummary] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class StrategySummary:
    """One strategy's part in the run."""

    strategy: str
    stop_reason: str
    baseline: float | None = None
    best: float | None = None
    candidates: int = 0
    rollouts: int = 0
    requests: int = 0
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class FailureSummary:
    """What failed of some rollouts."""

    rollouts: int = 0
    """Those that did not fail too."""
    failed: int = 0
    by_status: Mapping[str, int] = attrs.field(factory=dict)
    cause: str = ""
    """The most frequent one."""
    where: str = ""
    """The first row that it struck."""


@attrs.frozen(kw_only=True)
class FailureTable:
    """What failed, in the search and on the test rows."""

    search: FailureSummary = FailureSummary()
    search_baseline: FailureSummary = FailureSummary()
    """Of the search's rollouts those of the program as it was."""
    test: FailureSummary = FailureSummary()
    test_baseline: FailureSummary = FailureSummary()


@attrs.frozen(kw_only=True)
class Change:
    """What the winner changes of one predictor or text."""

    name: str
    instruction: bool = False
    demos: int | None = None
    """None: the demos are left as they are."""


@attrs.frozen(kw_only=True)
class PartlyScored:
    """A candidate that had no score yet on some of the validation rows when a cap ended the search."""

    candidate: int | None
    """None: the program as it is."""
    scored: int
    rows: int


@attrs.frozen(kw_only=True)
class ResultFile:
    """The whole of `result.json`."""

    name: str
    command: Command = "run"
    run_dir: str
    seed: int
    stop_reason: str
    rows: Rows
    validation: Scores
    spend: SpendSummary
    finished: bool = True
    """Whether there is nothing to resume."""
    test: Comparison | None = None
    strategies: tuple[StrategySummary, ...] = ()
    changes: tuple[Change, ...] = ()
    """Empty: the winner is the baseline."""
    notes: tuple[str, ...] = ()
    failures: FailureTable = FailureTable()
    partly: tuple[PartlyScored, ...] = ()
    """Where a cap ended the search: the program as it is, then who has the most scores."""
    scored_candidates: int | None = None
    """Candidates beside the program as it is that were scored on all validation rows; None: it was not counted."""

    @property
    def all_failed(self) -> FailureSummary | None:
        """What failed, where nothing else happened: to all candidates, or to a baseline that nothing beat."""
        found = self.failures
        parts = [found.search, found.test] if self.changes else [found.search_baseline, found.test_baseline]
        met = [part for part in parts if part.rollouts]
        return met[-1] if met and all(part.failed == part.rollouts for part in met) else None

    @property
    def outcome(self) -> Outcome:
        """An improvement is one that the test rows show: the whole interval above 0."""
        if self.all_failed:
            return "failed"
        if not self.changes:
            cut = not self.finished or self.partly
            return "not tested" if cut and self.scored_candidates == 0 else "no improvement"
        if self.test is None or self.test.interval is None or not self.test.untouched:
            return "not tested"
        return "improved" if self.test.interval[0] > 0 else "no improvement"


# --- from the core's values --------------------------------------------------------------------------------------


def summarize_spend(spend: Spend) -> SpendSummary:
    """Give a spend as the file holds it."""
    roles = {
        name: RoleSummary(
            requests=role.requests,
            input_tokens=role.usage.input_tokens,
            output_tokens=role.usage.output_tokens,
            cost=role.cost,
            unpriced=role.unpriced,
        )
        for name, role in spend.by_role.items()
    }
    return SpendSummary(
        rollouts=spend.metric_calls,
        cached=spend.cache_hits,
        requests=spend.requests,
        tokens=spend.tokens,
        cost=spend.cost,
        seconds=round(spend.seconds, 3),
        by_role=roles,
    )


def summarize_report(report: Report) -> StrategySummary:
    """Give a strategy's report as the file holds it."""
    return StrategySummary(
        strategy=report.strategy,
        stop_reason=report.stop_reason,
        baseline=report.baseline_score,
        best=report.best_score,
        candidates=len(report.candidates),
        rollouts=report.spend.metric_calls,
        requests=report.spend.requests,
        notes=report.notes,
    )


def summarize_failures(result: Result) -> FailureTable:
    """Say what failed."""
    test = result.test
    return FailureTable(
        search=_failures(result.failures),
        search_baseline=_failures(result.baseline_failures),
        test=_failures(Failures() if test is None else test.failures),
        test_baseline=_failures(Failures() if test is None else test.baseline_failures),
    )


def _failures(found: Failures) -> FailureSummary:
    return FailureSummary(
        rollouts=found.rollouts, failed=found.count, by_status=found.by_status, cause=found.cause, where=found.where
    )


def summarize_candidate(candidate: Candidate) -> tuple[Change, ...]:
    """Say what a candidate changes."""
    return tuple(
        Change(
            name=name,
            instruction=overlay.instruction is not None or overlay.clear_instruction,
            demos=None if overlay.demos is None else len(overlay.demos),
        )
        for name, overlay in candidate.overlays.items()
    )


# --- the file ----------------------------------------------------------------------------------------------------


def result_schema() -> dict[str, Any]:
    """Give the published JSON schema of `result.json`."""
    path = resources.files("burnish_cli") / "schema" / "result.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def to_json(result: ResultFile) -> dict[str, Any]:
    """Give a result as JSON values; money is text, so that no digit is lost."""
    converter = cattrs.Converter()
    converter.register_unstructure_hook(Decimal, lambda amount: f"{amount:f}")
    head = {"format": FORMAT, "version": VERSION, "name": result.name, "outcome": result.outcome}
    return head | converter.unstructure(result)  # type: ignore[no-any-return]


def write_result(result: ResultFile, path: Path) -> None:
    """Write the file whole or not at all. Raises `StoreError`."""
    write_atomic(path, json_text(to_json(result)))


def read_result(path: Path) -> ResultFile:
    """Read a result back. Raises `StoreError` for a file that is missing, damaged or of another version."""
    try:
        form = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} is not there: the run has not come to its end", path=str(path)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {error}", path=str(path)) from None
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise StoreError(f"{path} is no {FORMAT} file", path=str(path))
    if form.get("version") != VERSION:
        what = f"{path} has version {form.get('version')}, this burnish reads {VERSION}"
        raise StoreError(f"{what}; use the burnish that wrote it", path=str(path))
    converter = cattrs.Converter()
    converter.register_structure_hook(Decimal, lambda value, _: Decimal(value))
    try:
        return converter.structure(form, ResultFile)
    except (cattrs.BaseValidationError, ArithmeticError) as error:
        raise StoreError(f"{path} is damaged: {error}", path=str(path)) from None
