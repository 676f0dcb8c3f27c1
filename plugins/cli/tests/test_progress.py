"""Progress: the figures of a run, few plain lines, a live display that ends when it is closed."""

from __future__ import annotations

import io
from decimal import Decimal

import attrs
import pytest

from burnish import Budget, Candidate, Eval, Fault, RoleSpend, RolloutRecord, RolloutStatus
from burnish._model.events import CallLanded, CandidateRegistered, RolloutLanded, RunEnded, Source, Told, Warned
from burnish._model.lm import Usage
from burnish_cli import text
from burnish_cli.progress import open_progress
from burnish_cli.tally import Tally


class Clock:
    """Time that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("CI", raising=False)
    return Terminal()


def landed(candidate: int, example: int, score: float | None, source: Source = "live") -> RolloutLanded:
    status = RolloutStatus.INFRASTRUCTURE_FAILED if score is None else RolloutStatus.SUCCEEDED
    spend = RoleSpend(requests=1, usage=Usage(input_tokens=90, output_tokens=10), cost=Decimal("0.001"))
    record = RolloutRecord(status=status, eval=None if score is None else Eval(score), calls={"task": spend})
    return RolloutLanded(key="k", candidate=candidate, example=example, record=record, source=source)


def registered(index: int) -> CandidateRegistered:
    return CandidateRegistered(index=index, candidate=Candidate().set_instruction("p", f"{index}" * index))


BASELINE = CandidateRegistered(index=0, candidate=Candidate())


def test_baseline_and_best_are_of_whole_validation_sets(clock: Clock) -> None:
    """A candidate counts once every validation row has landed; train rows and unscored rows are not averaged in."""
    tally = Tally(val=range(2), budget=Budget(), clock=clock)
    told = [
        tally.feed(event)
        for event in (
            BASELINE,
            landed(0, 0, 0.5),
            landed(0, 2, 1.0),
            landed(0, 1, None),
            registered(1),
            landed(1, 0, 1.0),
            landed(1, 1, 0.5),
            registered(2),
            landed(2, 0, 0.0),
            landed(2, 1, 0.0),
            registered(3),
            landed(3, 0, 1.0),
            landed(3, 1, 0.5),
            landed(1, 1, 0.5),
            RunEnded(stop_reason="stopped: the metric raised ValueError"),
        )
    ]
    milestones = [
        "rollouts fail: infrastructure_failed (1 so far) · baseline 0.500 on 2 validation rows",
        "new best 0.750 (candidate 1)",
    ]
    assert milestones == [t for t in told if t]
    figures = tally.figures()
    assert (0.5, 0.75, 1, 4) == (figures.baseline, figures.best, figures.best_candidate, figures.candidates)


def test_a_best_that_is_not_higher_is_not_told(clock: Clock) -> None:
    """Ties are no news, also where sums differ in the last digit, and where the tie lands before the baseline."""
    tally = Tally(val=range(3), budget=Budget(), clock=clock)
    scores = {1: (0.1, 0.2, 0.3), 0: (0.3, 0.2, 0.1), 2: (0.2, 0.1, 0.3), 3: (0.4, 0.2, 0.3), 4: (0.3, 0.2, 0.4)}
    for event in (BASELINE, *map(registered, range(1, 5))):
        tally.feed(event)
    told = [
        tally.feed(landed(candidate, row, score)) for candidate, row_scores in scores.items()
        for row, score in enumerate(row_scores)
    ]
    assert ["baseline 0.200 on 3 validation rows", "new best 0.300 (candidate 3)"] == [line for line in told if line]


def test_a_candidate_before_the_baseline_is_told_with_it(clock: Clock) -> None:
    """Higher than what? It is said when the baseline has landed."""
    tally = Tally(val=range(1), budget=Budget(), clock=clock)
    for event in (BASELINE, registered(1)):
        tally.feed(event)
    told = [tally.feed(landed(1, 0, 1.0)), tally.feed(landed(0, 0, 0.5))]
    assert [None, "baseline 0.500 on 1 validation row · new best 1.000 (candidate 1)"] == told


def test_no_estimate_while_the_provider_has_the_run_wait(clock: Clock) -> None:
    """A pause is told each time; until it is over nothing is said of the time left, whatever still lands."""
    tally = Tally(val=range(9), budget=Budget(max_metric_calls=60, max_seconds=900), clock=clock)
    tally.feed(BASELINE)
    clock.now += 1
    tally.feed(landed(0, 0, 1.0))
    pause = Warned(kind="paused", message="the endpoint asks to wait 60 s (slow down)", seconds=60.0)
    assert tally.figures().left is not None
    assert 2 * ["warning: the endpoint asks to wait 60 s (slow down)"] == [tally.feed(pause), tally.feed(pause)]
    clock.now += 59
    tally.feed(landed(0, 1, 1.0))
    assert tally.figures().left is None
    clock.now += 2
    assert tally.figures().left is not None


def test_the_first_failure_of_the_infrastructure_is_shown(clock: Clock) -> None:
    """A dead endpoint is seen at once, not at the end: the cause a single time, then the count in each line."""
    stream = io.StringIO()
    tally = Tally(val=range(9), budget=Budget(), clock=clock)
    lost = landed(0, 0, None)
    fault = Fault(type="ModelConnectionError", message="cannot connect\x1b")
    lost = attrs.evolve(lost, record=attrs.evolve(lost.record, fault=fault))
    with open_progress(stream, tally, clock) as view:
        for event in (BASELINE, lost, attrs.evolve(lost, example=1), Warned(kind="failures", message="2 of 2")):
            view.feed(event)
        clock.now += 10
        view.tick()
    first, line = stream.getvalue().splitlines()
    assert rf"0:00 · rollouts fail: {str(fault)[:-1]}\x1b (1 so far)" == first
    assert " · 2 failed · baseline –" in line


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("finished", None),
        ("cancelled", None),
        ("stopped: why", None),
        ("budget: max_requests", None),
        ("budget: max_seconds", "ended: budget: max_seconds"),
    ],
)
def test_the_end_is_told_once(clock: Clock, reason: str, told: str | None) -> None:
    """After the test nobody is told that the search ended, nor again of a cap, a signal or an error."""
    tally = Tally(val=range(1), budget=Budget(), clock=clock)
    tally.feed(Told(step="a", needed=3, cap="max_requests"))
    assert told == tally.feed(RunEnded(stop_reason=reason))


def test_test_rows_are_none_of_the_search(clock: Clock) -> None:
    """The final test is announced once; its scores are no validation scores, though its rows count from 0 too."""
    tally = Tally(val=range(2), budget=Budget(), clock=clock)
    told = [tally.feed(BASELINE)]
    told += [tally.feed(attrs.evolve(landed(0, example, 1.0), split="test")) for example in range(2)]
    assert [None, "scoring baseline and winner on the test rows", None] == told
    assert (None, 2) == (tally.figures().best, tally.figures().spend.metric_calls)


def test_spend_stands_against_its_caps(clock: Clock) -> None:
    """Rollouts that ran count, served ones are free; calls of proposers count with their role; unpriced is not zero."""
    budget = Budget(max_metric_calls=10, max_tokens=1000, max_cost=Decimal("2"))
    tally = Tally(val=range(2), budget=budget, clock=clock)
    for event in (BASELINE, landed(0, 0, 1.0), landed(0, 1, 1.0, "cache"), landed(0, 2, 0.0, "store")):
        tally.feed(event)
    call = RoleSpend(requests=2, usage=Usage(input_tokens=1100), unpriced=2)
    tally.feed(CallLanded(key="c", role="proposer", calls={"proposer": call}))
    assert [
        "1/10 rollouts",
        "3 requests",
        "1,200/1,000 tokens",
        "$0.0010/$2.00 and 2 unpriced requests",
    ] == list(tally.figures().against_caps())
    assert 1.0 == tally.figures().share()


def test_rate_and_time_left(clock: Clock) -> None:
    """The rate is that of the last half minute; the time left is the nearest cap's, also a cap in seconds."""
    tally = Tally(val=range(9), budget=Budget(max_metric_calls=60, max_seconds=1000), clock=clock)
    tally.feed(BASELINE)
    assert (None, 1000.0) == (tally.figures().rate, tally.figures().left)
    for example in range(10):
        clock.now += 4
        tally.feed(landed(0, example, 1.0))
    figures = tally.figures()
    assert 8 / 30 == figures.rate
    assert pytest.approx(50 * 30 / 8) == figures.left
    clock.now += 900
    assert (None, 60.0) == (tally.figures().rate, tally.figures().left)
    planned = Tally(val=range(9), budget=Budget(), clock=clock, rollouts=4)
    clock.now += 1
    planned.feed(landed(0, 0, 1.0))
    assert 3.0 == planned.figures().left


def test_the_search_ends_before_the_time_does(clock: Clock) -> None:
    """With test rows `max_seconds` ends the search at four fifths; then comes the test, at the rate of late."""
    budget = Budget(max_seconds=1000)
    tally = Tally(val=range(9), budget=budget, clock=clock, test=20)
    tally.feed(BASELINE)
    assert 1000.0 == tally.figures().left
    clock.now += 10
    for example in range(2):
        tally.feed(landed(0, example, 1.0))
    assert 790.0 + 20 / 0.2 == tally.figures().left
    slow = Tally(val=range(9), budget=budget, clock=clock, test=200)
    clock.now += 10
    slow.feed(landed(0, 0, 1.0))
    assert 990.0 == slow.figures().left
    for example in range(5):
        tally.feed(attrs.evolve(landed(0, example, 1.0), split="test"))
    assert pytest.approx(15 / (7 / 20)) == tally.figures().left


def test_plain_lines_are_few(clock: Clock) -> None:
    """Off a terminal: one line in ten seconds at most, milestones at once, nothing after the end (scenario 66)."""
    stream = io.StringIO()
    with open_progress(stream, Tally(val=range(2), budget=Budget(max_metric_calls=100), clock=clock), clock) as view:
        view.feed(BASELINE)
        for step in range(24):
            clock.now += 0.5
            view.feed(landed(0, step, 0.25))
            view.tick()
        view.feed(Told(step="a", needed=3, cap="max_metric_calls"))
        view.feed(Told(step="b", needed=2, cap="max_metric_calls"))
        view.feed(RunEnded(stop_reason="budget: max_metric_calls"))
    clock.now += 60
    view.tick()
    view.feed(Warned(kind="late", message="too late"))
    assert [
        "0:01 · baseline 0.250 on 2 validation rows",
        "0:10 · 20/100 rollouts · 20 requests · 2,000 tokens · $0.0200 · baseline 0.250 · best 0.250 (candidate 0 of 1)"
        " · 2.0/s · about 0:40 left",
        "0:12 · the budget is used up: max_metric_calls",
    ] == stream.getvalue().splitlines()


def test_what_a_model_wrote_is_data(clock: Clock, terminal: Terminal) -> None:
    """Neither escape sequences nor markup nor line breaks in a message reach the terminal as such."""
    evil = "a\x1b[2Jb\nc [bold]d[/bold] \u202e\ud800"
    shown = r"warning: a\x1b[2Jb\nc [bold]d[/bold] \u202e\ud800"
    for stream in (io.StringIO(), terminal):
        tally = Tally(val=range(1), budget=Budget(), clock=clock)
        with open_progress(stream, tally, clock) as view:
            view.feed(Warned(kind="x", message=evil))
        assert shown in stream.getvalue()
        assert "\x1b[2J" not in stream.getvalue()


def test_the_live_display_redraws_and_goes(clock: Clock, terminal: Terminal) -> None:
    """Figures are redrawn at most four times a second and with a milestone; closing leaves the cursor, nothing else."""
    budget = Budget(max_metric_calls=100)
    with open_progress(terminal, Tally(val=range(1), budget=budget, clock=clock), clock) as view:
        view.feed(BASELINE)
        for step in range(50):
            clock.now += 0.01
            view.feed(landed(0, step, 0.25))
        drawn = terminal.getvalue()
    assert 3 + 1 == drawn.count("rollouts")
    assert "baseline 0.250 on 1 validation row" in drawn
    assert "\x1b[?25h" in terminal.getvalue()[len(drawn) :]
    size = len(terminal.getvalue())
    view.feed(landed(0, 99, 1.0))
    view.tick()
    assert size == len(terminal.getvalue())


def test_a_narrow_encoding_is_no_crash() -> None:
    """What the stream's encoding does not have is escaped."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    text.write_line(stream, "é · ü")
    assert b"\\xe9 \\xb7 \\xfc\n" == raw.getvalue()


def test_numbers_read_well() -> None:
    """Durations, money and counts are written for people."""
    assert ["0:05", "12:05", "3:02:10"] == [text.clock(s) for s in (5.9, 725, 10930)]
    assert ["$0.00", "$0.0420", "$12.50"] == [text.money(Decimal(m)) for m in ("0", "0.042", "12.5")]
    assert ["1 row", "1,200 rows"] == [text.count(n, "row") for n in (1, 1200)]
    assert ["–", "0.125", "ab…"] == [text.score(None), text.score(0.125), text.safe("abcd", limit=3)]
