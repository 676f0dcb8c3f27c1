"""The Pareto view and the frontier wrapper."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish._model.pareto import ParetoFrontier, ParetoStatistics, ParetoView
from burnish.errors import UsageError

quick = settings(
    derandomize=True, deadline=None, max_examples=40, database=None, suppress_health_check=[HealthCheck.too_slow]
)
tenths = st.integers(0, 4).map(lambda n: n / 4)
score_rows = st.lists(st.lists(tenths, min_size=1, max_size=4), max_size=8)


def test_a_win_is_best_or_tied() -> None:
    """Within 1e-6 of a column's best is a tie; a candidate without wins is dominated, an unknown one has none (E38)."""
    view = ParetoView([(0.5, 0.2), (0.5 - 9e-7, 0.1), (0.5 - 2e-6, 0.1)], 2)
    assert [2, 1, 0, 0, 0] == [view.wins(c) for c in (0, 1, 2, 3, -1)]
    assert [0, 1] == view.frontier()


def test_unscored_columns_count_for_nobody() -> None:
    """They have no best score and nobody wins them (E38)."""
    view = ParetoView([(None, 0.0), (None, None), ()], 2)
    assert [None, 0.0] == view.best_scores()
    assert [1, 0, 0] == [view.wins(c) for c in range(3)]
    assert 1 == view.statistics().num_examples_covered


def test_scores_beyond_the_columns_are_not_seen() -> None:
    """A view has as many columns as it was asked for."""
    view = ParetoView([(0.1, 0.9), (0.2,)], 1)
    assert [0.2] == view.best_scores()
    assert [1] == view.frontier()


def test_statistics_of_nothing_are_zeros() -> None:
    """Empty gives zeros; one member on the frontier means that the search collapsed (E41)."""
    assert ParetoStatistics() == ParetoView([], 3).statistics()
    collapsed = ParetoView([(0.9, 0.9), (0.1, 0.1)], 2).statistics()
    assert (1, 2, 2.0, 2, 2) == (
        collapsed.num_candidates,
        collapsed.num_examples_covered,
        collapsed.avg_coverage,
        collapsed.max_coverage,
        collapsed.min_coverage,
    )


def test_scenario_23() -> None:
    """Empty, first, complementary, refused: lengths, answers and statistics of the wrapper (scenario 23, E42)."""
    frontier = ParetoFrontier[str]()
    assert 0 == len(frontier)
    assert frontier.is_empty
    assert frontier.sample_proportional_to_coverage() is None
    assert frontier.best_by_average() is None
    assert frontier.add_candidate("a", [0.9, 0.5, 0.5])
    assert 1 == len(frontier)
    assert frontier.add_candidate("b", [0.5, 0.9, 0.9])
    assert 2 == len(frontier)
    assert not frontier.add_candidate("c", [0.3, 0.3, 0.3])
    assert 2 == len(frontier)
    statistics = frontier.statistics()
    assert (2, 3) == (statistics.num_candidates, statistics.num_examples_covered)
    best = frontier.best_by_average()
    assert best is not None
    assert "b" == best.payload


def one_to_three(seed: int = 0) -> ParetoFrontier[str]:
    frontier = ParetoFrontier[str](seed=seed)
    frontier.add_candidate("one", [0.9, 0.1, 0.1, 0.1])
    frontier.add_candidate("three", [0.1, 0.9, 0.9, 0.9])
    return frontier


@pytest.mark.parametrize("own", [True, False])
def test_draws_are_in_proportion_to_coverage(own: bool) -> None:
    """Coverage 1 and 3 of 4 columns are drawn about 1:3, by its own sequence and by a given one (scenario 23)."""
    frontier, rng = one_to_three(), random.Random(5)
    drawn = [frontier.sample_proportional_to_coverage(None if own else rng) for _ in range(2000)]
    share = sum(m is not None and m.payload == "three" for m in drawn) / 2000
    assert 0.75 == pytest.approx(share, abs=0.04)


def test_draws_are_the_same_for_the_same_seed() -> None:
    """Nothing random is left in it: a seed fixes the sequence, another seed gives another (E42)."""
    runs = []
    for seed in (1, 1, 2):
        frontier = one_to_three(seed)
        runs.append([m.payload for _ in range(60) if (m := frontier.sample_proportional_to_coverage()) is not None])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert 60 == len(runs[0])


def test_ids_count_every_offer() -> None:
    """A refused candidate uses up an id and is not kept (E42); one with a wrong score is no offer at all."""
    frontier = ParetoFrontier[str]()
    frontier.add_candidate("a", [0.5])
    assert not frontier.add_candidate("b", [0.1])
    with pytest.raises(UsageError, match="finite"):
        frontier.add_candidate("nan", [0.9, float("nan")])
    assert not frontier.add_candidate("none", [])
    assert frontier.add_candidate("c", [0.9])
    assert [(3, "c", (0.9,))] == [(m.id, m.payload, m.scores) for m in frontier.candidates()]


def test_a_column_that_nobody_had_lets_in() -> None:
    """A low score on a new column covers it (E42)."""
    frontier = ParetoFrontier[str]()
    frontier.add_candidate("a", [0.9])
    assert frontier.add_candidate("b", [0.1, 0.0])
    assert 2 == len(frontier)


def test_beaten_members_are_dropped_and_still_count() -> None:
    """A dropped member's scores stay the measure: nobody wins a column below what was ever there (E43)."""
    frontier = ParetoFrontier[str]()
    frontier.add_candidate("a", [0.5, 0.5])
    frontier.add_candidate("b", [0.6, 0.6])
    assert ["b"] == [m.payload for m in frontier.candidates()]
    assert not frontier.add_candidate("a again", [0.5, 0.5])
    assert frontier.add_candidate("tie", [0.6, 0.0])


def test_the_earliest_of_equal_averages_is_best() -> None:
    """Ties in the average go to the first (E42, E37's rule)."""
    frontier = ParetoFrontier[str]()
    frontier.add_candidate("a", [1.0, 0.0])
    frontier.add_candidate("b", [0.0, 1.0])
    best = frontier.best_by_average()
    assert best is not None
    assert (0, 0.5) == (best.id, best.average_score())


@quick
@given(score_rows)
def test_members_are_those_that_win_against_everything_accepted(rows: list[list[float]]) -> None:
    """Against a naive list of all accepted: who is let in, and who is still on the frontier (E42, E43)."""
    frontier, accepted = ParetoFrontier[int](), list[tuple[int, list[float]]]()

    def wins(scores: list[float], against: list[tuple[int, list[float]]]) -> bool:
        return any(
            all(s + 1e-6 >= other[e] for _, other in against if e < len(other)) for e, s in enumerate(scores)
        )

    for i, scores in enumerate(rows):
        let_in = wins(scores, accepted)
        assert let_in == frontier.add_candidate(i, scores)
        if let_in:
            accepted.append((i, scores))
    expected = [i for i, scores in accepted if wins(scores, accepted)]
    assert expected == [m.payload for m in frontier.candidates()]
    assert len(expected) == frontier.statistics().num_candidates
