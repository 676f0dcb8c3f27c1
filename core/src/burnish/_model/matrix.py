"""Scores of candidates (rows) on examples (columns), with several samples a cell (seed 000; E36-E37)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs

from burnish._model.evals import Eval
from burnish._model.pareto import Leaders, ParetoView, leading
from burnish.errors import UsageError


@attrs.frozen
class Cell:
    """The samples of one candidate on one example, by sample index."""

    samples: Mapping[int, Eval]
    keys: Mapping[int, str] = attrs.field(factory=dict, eq=False, repr=False)
    """Keys of the rollouts that earned them, by sample index, as far as they are known."""

    @property
    def count(self) -> int:
        return len(self.samples)

    @property
    def total(self) -> float:
        """Sum of the scores."""
        return math.fsum(e.score for e in self.samples.values())

    @property
    def total_squares(self) -> float:
        """Sum of the squared scores."""
        return math.fsum(e.score * e.score for e in self.samples.values())

    @property
    def mean(self) -> float:
        if len(self.samples) == 1:
            return next(iter(self.samples.values())).score
        return self.total / len(self.samples)

    @property
    def variance(self) -> float | None:
        """Sample variance; None below two samples."""
        n = len(self.samples)
        if n < 2:
            return None
        mean = self.mean
        return math.fsum((e.score - mean) ** 2 for e in self.samples.values()) / (n - 1)

    def objective(self, name: str) -> float | None:
        """Mean of a named objective over the samples that have it."""
        values = [e.objectives[name] for e in self.samples.values() if name in e.objectives]
        return math.fsum(values) / len(values) if values else None


class ScoreMatrix:
    """Rows in registration order, columns as the examples; a cell is None until scored.

    `record` grows rows and columns. Sums run in column order, so that a mean never depends on the order of arrival.
    """

    def __init__(self, columns: int = 0) -> None:
        self._columns = columns
        self._rows: list[list[Cell | None]] = []
        self._leaders: list[Leaders] = []
        self._changed: list[tuple[int, int]] | None = None
        """Cells that changed since the frontier was looked at; None where nobody ever looked."""

    @property
    def candidates(self) -> int:
        """Number of rows."""
        return len(self._rows)

    @property
    def examples(self) -> int:
        """Number of columns."""
        return self._columns

    def ensure_rows(self, n: int) -> None:
        """Have at least `n` rows."""
        while len(self._rows) < n:
            self._rows.append([])

    def record(self, candidate: int, example: int, score: float | Eval, sample: int = 0, key: str = "") -> None:
        """Put one score into a cell; the same sample again replaces what it held. `key` is that of its rollout.

        Raises `UsageError` for a negative index or a score that is not finite; the matrix is then as it was.
        """
        if candidate < 0 or example < 0:
            raise UsageError(f"matrix indices start at 0; got candidate {candidate}, example {example}")
        value = score if isinstance(score, Eval) else Eval(score)
        self.ensure_rows(candidate + 1)
        self._columns = max(self._columns, example + 1)
        row = self._rows[candidate]
        row.extend([None] * (example + 1 - len(row)))
        old = row[example]
        if old is not None and old.samples.get(sample) is value and old.keys.get(sample) == key:
            return  # the same result, told once more
        if old is None:
            row[example] = Cell({sample: value}, {sample: key})
        else:
            row[example] = Cell({**old.samples, sample: value}, {**old.keys, sample: key})
        if self._changed is not None:
            self._changed.append((candidate, example))

    def drop(self, candidate: int, example: int, sample: int = 0) -> None:
        """Take one score out of its cell; an empty cell is None again. What is not there is passed over."""
        cell = self.cell(candidate, example)
        if cell is not None:
            samples = {n: value for n, value in cell.samples.items() if n != sample}
            self._rows[candidate][example] = Cell(samples, cell.keys) if samples else None
            if self._changed is not None:
                self._changed.append((candidate, example))

    def cell(self, candidate: int, example: int) -> Cell | None:
        """Give a cell; None where nothing is scored, also outside the matrix."""
        if not 0 <= candidate < len(self._rows):
            return None
        row = self._rows[candidate]
        return row[example] if 0 <= example < len(row) else None

    def score(self, candidate: int, example: int) -> float | None:
        """Give the mean of a cell's samples; None where nothing is scored."""
        cell = self.cell(candidate, example)
        return None if cell is None else cell.mean

    def row(self, candidate: int) -> list[float | None]:
        """Give a row's scores, one a column."""
        return [self.score(candidate, e) for e in range(self._columns)]

    def coverage(self, candidate: int, columns: Iterable[int] | None = None) -> int:
        """Count the scored cells of a row."""
        return sum(self.cell(candidate, e) is not None for e in self._over(columns))

    def mean(self, candidate: int, columns: Iterable[int] | None = None) -> float | None:
        """Average a row's scored cells; None if there is none."""
        scores = [s for e in self._over(columns) if (s := self.score(candidate, e)) is not None]
        return math.fsum(scores) / len(scores) if scores else None

    def best_by_mean(self, columns: Sequence[int] | None = None, min_coverage: int = 1) -> int | None:
        """Give the row with the best mean; the earliest on ties. Rows with fewer scored cells do not compete."""
        best: tuple[float, int] | None = None
        for candidate in range(len(self._rows)):
            mean = self.mean(candidate, columns)
            if mean is None or self.coverage(candidate, columns) < min_coverage:
                continue
            if best is None or mean > best[0]:
                best = (mean, candidate)
        return None if best is None else best[1]

    def pareto(self) -> ParetoView:
        """Take a snapshot of who wins where, over all columns."""
        return self.pareto_over(range(self._columns))

    def pareto_over(self, columns: Iterable[int]) -> ParetoView:
        """Take a snapshot over these columns, as given: one named twice counts twice (E39)."""
        names = tuple(columns)
        return ParetoView(tuple(tuple(self.score(c, e) for e in names) for c in range(len(self._rows))), len(names))

    def frontier(self, columns: Iterable[int]) -> list[int]:
        """Give the candidates that are best or tie on some of these columns, ascending: `pareto_over(...).frontier()`.

        For loops: each score that came in since the last look is taken in once, whatever the columns.
        """
        if self._changed is None:
            self._changed = [(c, e) for c, row in enumerate(self._rows) for e, cell in enumerate(row) if cell]
        self._leaders.extend(Leaders() for _ in range(self._columns - len(self._leaders)))
        for candidate, example in self._changed:
            if not self._leaders[example].take(candidate, self.score(candidate, example)):
                self._leaders[example].recount([self.score(c, example) for c in range(len(self._rows))])
        self._changed.clear()
        return leading(self._leaders[e] for e in columns if 0 <= e < self._columns)

    def _over(self, columns: Iterable[int] | None) -> Iterable[int]:
        return range(self._columns) if columns is None else columns
