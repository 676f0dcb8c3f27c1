"""The score matrix: rows in registration order, cells with samples."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish._model.evals import Eval
from burnish._model.matrix import Cell, ScoreMatrix
from burnish._model.pareto import ParetoStatistics
from burnish.errors import UsageError

quick = settings(
    derandomize=True, deadline=None, max_examples=50, database=None, suppress_health_check=[HealthCheck.too_slow]
)
tenths = st.integers(-10, 10).map(lambda n: n / 10)
records = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), tenths, st.integers(0, 2)), max_size=25)


def filled(*rows: tuple[float | None, ...]) -> ScoreMatrix:
    matrix = ScoreMatrix(len(rows[0]))
    for c, row in enumerate(rows):
        matrix.ensure_rows(c + 1)
        for e, score in enumerate(row):
            if score is not None:
                matrix.record(c, e, score)
    return matrix


def test_scenario_17() -> None:
    """Three rows: wins, frontier, bests and statistics, a late tie, a view over one column (scenario 17, E38, E41)."""
    matrix = filled((0.9, 0.5, 0.5), (0.5, 0.9, 0.9), (0.3, 0.3, 0.3))
    view = matrix.pareto()
    assert [1, 2, 0] == [view.wins(c) for c in range(3)]
    assert [0, 1] == view.frontier()
    assert [0.9, 0.9, 0.9] == view.best_scores()
    assert (
        ParetoStatistics(
            num_candidates=2, num_examples_covered=3, avg_coverage=1.5, max_coverage=2, min_coverage=1
        )
        == view.statistics()
    )
    matrix.record(2, 0, 0.9)
    assert 1 == matrix.pareto().wins(2)
    assert 0 == view.wins(2), "a view is a snapshot"
    over_first = matrix.pareto_over([0])
    assert 0 == over_first.wins(1)
    assert [0, 2] == over_first.frontier()
    assert 1 == matrix.best_by_mean()


def test_cells_are_none_until_scored() -> None:
    """Rows and columns grow with what is recorded; what is not scored is None, inside and outside (E36)."""
    matrix = ScoreMatrix(3)
    matrix.ensure_rows(1)
    matrix.record(2, 1, 0.5)
    assert (3, 3) == (matrix.candidates, matrix.examples)
    assert [None, 0.5, None] == matrix.row(2)
    assert [None, None, None] == matrix.row(0) == matrix.row(99)
    assert matrix.score(2, 0) is matrix.score(7, 0) is matrix.score(0, 9) is matrix.score(-1, 0) is None
    matrix.record(0, 4, 1)
    assert 5 == matrix.examples
    assert [None, 0.5, None, None, None] == matrix.row(2)
    matrix.ensure_rows(1)
    assert 3 == matrix.candidates


def test_a_mean_is_over_filled_cells() -> None:
    """None where nothing is scored; of chosen columns only those count (E37)."""
    matrix = filled((0.9, None, 0.1), (None, None, None))
    assert 0.5 == matrix.mean(0)
    assert 0.1 == matrix.mean(0, [1, 2])
    assert matrix.mean(1) is matrix.mean(0, [1]) is matrix.mean(99) is None
    assert (2, 1, 0) == (matrix.coverage(0), matrix.coverage(0, [1, 2]), matrix.coverage(1))


def test_the_earliest_of_equals_is_best() -> None:
    """On ties the first row wins, not the last (E37)."""
    assert 1 == filled((0.1, 0.1), (0.5, 0.5), (0.5, 0.5)).best_by_mean()
    assert ScoreMatrix(2).best_by_mean() is None
    assert filled((None, None)).best_by_mean() is None


def test_a_row_of_one_lucky_cell_need_not_compete() -> None:
    """`min_coverage` keeps rows with fewer scored cells out (E37)."""
    matrix = filled((0.6, 0.6, 0.6), (1.0, None, None))
    assert 1 == matrix.best_by_mean()
    assert 0 == matrix.best_by_mean(min_coverage=3)
    assert 0 == matrix.best_by_mean([1, 2])
    assert matrix.best_by_mean([0], min_coverage=2) is None


def test_views_keep_columns_as_given() -> None:
    """A column named twice counts twice, order is kept, one out of range reads as unscored (E39)."""
    view = filled((0.9, 0.1), (0.2, 0.8)).pareto_over([1, 0, 0, 7, -1])
    assert [0.8, 0.9, 0.9, None, None] == view.best_scores()
    assert [2, 1] == [view.wins(0), view.wins(1)]
    assert 3 == view.statistics().num_examples_covered


@pytest.mark.parametrize(("c", "e", "score"), [(3, 0, float("nan")), (0, 9, float("inf")), (-1, 0, 0.5), (0, -1, 0.5)])
def test_a_refused_score_leaves_the_matrix_as_it_was(c: int, e: int, score: float) -> None:
    """A score that is not finite, or a negative index, grows nothing (E40)."""
    matrix = filled((0.5, 0.5))
    with pytest.raises(UsageError):
        matrix.record(c, e, score)
    assert (1, 2, [0.5, 0.5]) == (matrix.candidates, matrix.examples, matrix.row(0))


def test_samples_of_a_cell() -> None:
    """Count, sum, sum of squares, mean and variance of repeats; the same sample again replaces itself."""
    matrix = ScoreMatrix(1)
    for sample, score in enumerate((0.0, 1.0, 0.5)):
        matrix.record(0, 0, Eval(score, objectives={"brevity": score, "odd": 1} if sample else {}), sample)
    cell = matrix.cell(0, 0)
    assert cell is not None
    assert (3, 1.5, 1.25, 0.5, 0.25) == (cell.count, cell.total, cell.total_squares, cell.mean, cell.variance)
    assert (0.75, None) == (cell.objective("brevity"), cell.objective("unknown"))
    matrix.record(0, 0, 0.0, sample=1)
    assert 1 / 6 == matrix.score(0, 0)
    assert 1 == matrix.coverage(0)
    assert Cell({0: Eval(0.3)}).variance is None


def test_a_mean_never_depends_on_the_order_of_arrival() -> None:
    """Five scores in all orders give one mean, of a cell and of a row (R11)."""
    scores = (0.1, 0.7, 0.2, 1e9, -1e9)
    cells, rows = set(), set()
    for order in permutations(range(5)):
        matrix = ScoreMatrix(5)
        for i in order:
            matrix.record(0, 0, scores[i], sample=i)
            matrix.record(1, i, scores[i])
        cells.add(matrix.mean(0))
        rows.add(matrix.mean(1))
    assert cells == rows == {0.2}


def exact(scores: list[float]) -> Fraction:
    return sum(map(Fraction, scores), Fraction(0)) / len(scores)


@quick
@given(records)
def test_the_matrix_is_a_table_of_last_records(recorded: list[tuple[int, int, float, int]]) -> None:
    """Against a naive table: every score, mean, coverage, win and best row agrees (E36-E38)."""
    matrix, table = ScoreMatrix(), dict[tuple[int, int], dict[int, float]]()
    for c, e, score, sample in recorded:
        matrix.record(c, e, score, sample)
        table.setdefault((c, e), {})[sample] = score
    rows = 1 + max((c for c, _ in table), default=-1)
    columns = 1 + max((e for _, e in table), default=-1)
    assert (rows, columns) == (matrix.candidates, matrix.examples)
    cells = {place: float(exact(list(samples.values()))) for place, samples in table.items()}
    assert cells == pytest.approx({p: matrix.score(*p) for p in cells}, abs=1e-12)
    means = {}
    for c in range(rows):
        assert [matrix.score(c, e) for e in range(columns)] == matrix.row(c)
        scored = [s for s in matrix.row(c) if s is not None]
        assert len(scored) == matrix.coverage(c)
        assert (sum(scored) / len(scored) if scored else None) == pytest.approx(matrix.mean(c), abs=1e-12)
        if (mean := matrix.mean(c)) is not None:
            means[c] = mean
    best = min((c for c, m in means.items() if m == max(means.values())), default=None)
    assert best == matrix.best_by_mean()
    view = matrix.pareto()
    for c in range(rows):
        wins = sum(
            matrix.score(c, e) is not None
            and all(cells[c, e] + 1e-6 >= other for (_, column), other in cells.items() if column == e)
            for e in range(columns)
        )
        assert wins == view.wins(c)
    assert [c for c in range(rows) if view.wins(c)] == view.frontier()


def test_what_is_dropped_is_unscored_again() -> None:
    """One sample leaves its cell, the last one leaves it empty; keys play no part in equality (E36, E80)."""
    matrix = ScoreMatrix(2)
    matrix.record(0, 0, 0.25, key="a")
    matrix.record(0, 0, 0.75, sample=1, key="b")
    cell = matrix.cell(0, 0)
    assert Cell({0: Eval(0.25), 1: Eval(0.75)}) == cell
    assert cell is not None
    assert {0: "a", 1: "b"} == cell.keys
    matrix.drop(0, 0)
    matrix.drop(0, 0)
    assert [0.75, None] == matrix.row(0)
    matrix.drop(0, 0, 1)
    for outside in ((0, 1), (0, 9), (9, 0), (-1, 0)):
        matrix.drop(*outside)
    assert ((1, 2), [None, None]) == ((matrix.candidates, matrix.examples), matrix.row(0))


near = st.sampled_from([0.0, 0.5, 0.5 + 5e-7, 0.5 + 9e-7, 0.5 + 1.5e-6, 1.0])
changes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.none() | near, st.integers(0, 1)), max_size=30)


@quick
@given(st.lists(st.tuples(changes, st.lists(st.integers(-1, 5), max_size=5)), max_size=4))
def test_the_frontier_that_is_kept_up_is_that_of_a_snapshot(
    rounds: list[tuple[list[tuple[int, int, float | None, int]], list[int]]],
) -> None:
    """Scores come, change, tie nearly and go; at each look the frontier is the naive view's, on any columns (E38)."""
    matrix = ScoreMatrix(4)
    for some, columns in rounds:
        for candidate, example, score, sample in some:
            if score is None:
                matrix.drop(candidate, example, sample)
            else:
                matrix.record(candidate, example, score, sample)
        assert matrix.pareto_over(columns).frontier() == matrix.frontier(columns)
        assert matrix.pareto().frontier() == matrix.frontier(range(4))
