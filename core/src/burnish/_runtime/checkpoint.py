"""An engine's state as one JSON text, and an engine made of it again (seed 000; E78-E82).

It is an export, not a second state: candidates, the matrix's samples, the answers without their traces, and the spend,
as they are between two rollouts. Metric, salt and failure score are noted, and each score has the key of its rollout,
so that no score is shown that another metric or another program has earned. A digest guards the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from burnish import abc
from burnish._model import codec
from burnish._model.budget import RoleSpend, Spend
from burnish._model.candidate import Candidate
from burnish._model.canonical import fingerprint, hex64
from burnish._model.evals import Eval
from burnish._model.events import RolloutLanded
from burnish._model.lm import Usage
from burnish._model.matrix import Cell, ScoreMatrix
from burnish._model.outcome import RolloutRecord, RolloutStatus
from burnish.errors import StoreError, UsageError, first_line

if TYPE_CHECKING:
    from burnish._runtime.evaluator import Evaluator

VERSION = 1
LARGEST = 10**30
"""Nothing that is counted or paid comes near it, and sums of what is below it stay finite."""


@attrs.frozen(kw_only=True)
class Scoring:
    """What decides a score beside the program and its models, which are given with each evaluation."""

    metric: str | None
    """The metric's fingerprint; None where it holds something without a content identity."""
    failure_score: float
    cache_salt: str
    """16 hex digits, as in the keys."""


@attrs.frozen(kw_only=True)
class Sample:
    """One score of a cell."""

    sample: int
    key: str
    """Key of the rollout that earned it; empty for a score that somebody wrote in by hand."""
    eval: Eval


@attrs.frozen(kw_only=True)
class Checkpoint:
    """What the text holds, beside its digest."""

    version: int
    example_uids: tuple[str, ...]
    scoring: Scoring
    candidates: tuple[Candidate, ...]
    matrix: tuple[tuple[tuple[Sample, ...], ...], ...]
    """Candidates by columns by samples, as far as each row is scored."""
    cache: Mapping[str, RolloutRecord]
    spend: Spend
    held: Decimal = Decimal(0)
    """What calls may have cost of which nobody knows, as far as a cap on money keeps it back."""


@attrs.frozen
class _Place:
    """Where a restored score stands, and the key that it was earned under."""

    candidate: int
    column: int
    sample: int
    key: str


class Restored:
    """The scores that came out of a checkpoint, until the first program shows whether it earned any of them."""

    def __init__(self, evaluator: Evaluator, places: Sequence[_Place]) -> None:
        self._evaluator, self._places = evaluator, places

    def meet(self, target: abc.Target) -> None:
        """Take the scores out of the matrix, and say so, where all of them are another program's (E80).

        Where one is this program's, all stay: an engine may be given several programs, and the scores of each count.
        """
        samples = sorted({place.sample for place in self._places})
        own = [b.scored[:16] for b in self._evaluator.baselines(target, samples)]
        mine = set(zip(samples, own, strict=True))
        if not self._places or any((place.sample, place.key[:16]) in mine for place in self._places):
            return
        matrix = self._evaluator.state.matrix
        for place in self._places:
            matrix.drop(place.candidate, place.column, place.sample)
        what = "the checkpoint's scores were taken on another program (other code, state or models)"
        _say_dropped(self._evaluator, what, self._places)


def write(evaluator: Evaluator) -> str:
    """Give the engine's state as JSON text, in ASCII, so that it can be written into any file."""
    checkpoint = Checkpoint(
        version=VERSION,
        example_uids=_uids(evaluator),
        scoring=_scoring(evaluator),
        candidates=tuple(evaluator.state.candidates),
        matrix=_rows(evaluator.state.matrix),
        cache={key: attrs.evolve(record, trace=None) for key, record in evaluator.answers.records.items()},
        spend=evaluator.ledger.spend,
        held=evaluator.ledger.kept_back,
    )
    body = codec.converter().unstructure(checkpoint)
    return json.dumps({**body, "digest": _digest(body)}, separators=(",", ":"), allow_nan=False)


def restore(evaluator: Evaluator, text: str) -> Restored:
    """Fill a new evaluator. Raises what `read` raises, and has changed nothing then."""
    checkpoint = read(text, _uids(evaluator))
    for candidate in checkpoint.candidates:
        evaluator.register(candidate)
    evaluator.answers.restore(checkpoint.cache)
    evaluator.charge(checkpoint.spend)
    evaluator.ledger.keep_back(checkpoint.held)
    differing = _differing(checkpoint.scoring, _scoring(evaluator))
    places, stale = [], []
    for place, value in _samples(checkpoint.matrix):
        if place.key and differing:
            stale.append(place)
            continue
        if place.key:
            places.append(place)
        record = RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=value)
        evaluator.emit(  # `scored`: a score alone, for which nothing ran and nothing is booked
            RolloutLanded(
                key=place.key,
                candidate=place.candidate,
                example=place.column,
                sample=place.sample,
                record=record,
                source="scored",
            )
        )
    if stale:
        _say_dropped(evaluator, f"the checkpoint's scores were taken under another {differing}", stale)
    return Restored(evaluator, places)


def read(text: str, uids: Sequence[str]) -> Checkpoint:
    """Read a checkpoint of these examples.

    Raises `StoreError` for a text that is damaged or of another version, and `UsageError` for other examples: a row
    changed, added, removed or moved (E79).
    """
    if not isinstance(text, str):
        raise UsageError(f"a checkpoint is the text that `checkpoint()` gave, not {type(text).__name__}")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"it is no JSON ({first_line(error)})") from error
    if not isinstance(data, dict) or "version" not in data:
        raise _invalid("it is no JSON object with a `version`")
    version = data["version"]
    if type(version) is not int or version != VERSION:
        raise StoreError(
            f"unsupported engine checkpoint version {_shown(version)}; this burnish reads version {VERSION}: "
            "use the burnish that wrote it"
        )
    _check_examples(data.get("example_uids"), uids)
    signed = data.pop("digest", None)
    try:
        if signed != _digest(data):
            raise _invalid("it is not as `checkpoint()` gave it: its digest differs")
        checkpoint = codec.loads(text, Checkpoint)
        _check(checkpoint)
    except (StoreError, ValueError, ArithmeticError, RecursionError) as error:  # `UsageError` is a `ValueError`
        if isinstance(error, StoreError) and str(error).startswith("invalid"):
            raise
        raise _invalid(first_line(error)) from error
    return checkpoint


def _check_examples(stored: Any, uids: Sequence[str]) -> None:
    if not isinstance(stored, list):
        raise _invalid("its `example_uids` are no list")
    if stored != list(uids):
        pairs = zip(stored, uids, strict=False)
        first = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(stored), len(uids)))
        raise UsageError(
            f"the engine checkpoint does not match the provided example set: it has {len(stored)} rows, {len(uids)} "
            f"were given, and they differ from row {first} on; give the same rows in the same order"
        )


def _check(checkpoint: Checkpoint) -> None:
    """Refuse what has the right shape and cannot be: no engine wrote it."""
    hashes = {candidate.stable_hash for candidate in checkpoint.candidates}
    if len(hashes) != len(checkpoint.candidates):
        raise _invalid("it holds a candidate twice")
    if any(place.sample < 0 for place, _ in _samples(checkpoint.matrix)):
        raise _invalid("it holds a sample with a negative number")
    if not 0 <= checkpoint.held < LARGEST:
        raise _invalid(f"it holds back {_shown(str(checkpoint.held))} dollars")
    _check_amounts(checkpoint.spend)
    for spent in checkpoint.spend.by_role.values():
        _check_amounts(spent)
    for record in checkpoint.cache.values():
        if record.eval is None or not record.status.scored:
            raise _invalid("it holds an answer without a score")


def _check_amounts(part: Spend | RoleSpend | Usage) -> None:
    for field in attrs.fields(type(part)):
        value = getattr(part, field.name)
        if isinstance(value, Usage):
            _check_amounts(value)
        elif isinstance(value, (int, float, Decimal)) and not 0 <= value < LARGEST:
            raise _invalid(f"its spend has {field.name} = {_shown(str(value))}")


def _scoring(evaluator: Evaluator) -> Scoring:
    config, metric = evaluator.config, evaluator.metric
    return Scoring(
        metric=None if metric.code_print.opaque else metric.fingerprint,
        failure_score=float(config.failure_score),
        cache_salt=hex64(config.cache_salt),
    )


def _differing(old: Scoring, new: Scoring) -> str:
    """Name what of the scoring changed, or cannot be said not to have; empty where it is the same."""
    names = [name for name in ("failure_score", "cache_salt") if getattr(old, name) != getattr(new, name)]
    if old.metric is None or new.metric is None:
        names.insert(0, "metric (as far as can be told: it holds objects without a content identity)")
    elif old.metric != new.metric:
        names.insert(0, "metric")
    return " and ".join(names)


def _say_dropped(evaluator: Evaluator, what: str, places: Sequence[_Place]) -> None:
    rows = sorted({place.candidate for place in places})
    shown = ", ".join(map(str, rows[:10])) + (", ..." if len(rows) > 10 else "")
    evaluator.warn(
        "checkpoint",
        f"{what}: {len(places)} of them, of the candidates {shown}, are not in the matrix; candidates, answers and "
        "spend are as they were, and an evaluation fills the cells anew",
    )


def _uids(evaluator: Evaluator) -> tuple[str, ...]:
    return tuple(hex64(example.uid) for example in evaluator.examples)


def _rows(matrix: ScoreMatrix) -> tuple[tuple[tuple[Sample, ...], ...], ...]:
    columns = range(matrix.examples)
    return tuple(tuple(_cell(matrix.cell(c, e)) for e in columns) for c in range(matrix.candidates))


def _cell(cell: Cell | None) -> tuple[Sample, ...]:
    samples = {} if cell is None else cell.samples
    keys = {} if cell is None else cell.keys
    return tuple(Sample(sample=n, key=keys.get(n, ""), eval=value) for n, value in samples.items())


def _samples(rows: Sequence[Sequence[Sequence[Sample]]]) -> Iterable[tuple[_Place, Eval]]:
    for candidate, row in enumerate(rows):
        for column, cell in enumerate(row):
            for sample in cell:
                yield _Place(candidate, column, sample.sample, sample.key), sample.eval


def _digest(body: Mapping[str, Any]) -> str:
    """Fingerprint the content: spaces and the order of keys do not count. Raises `ValueError` for NaN."""
    return fingerprint(json.dumps(body, sort_keys=True, allow_nan=False))


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, (int, float, str)) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:40]}..."


def _invalid(why: str) -> StoreError:
    return StoreError(f"invalid engine checkpoint: {why}; give the whole text, as `checkpoint()` gave it")
