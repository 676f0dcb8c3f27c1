"""What is asked for next: coverage first, TPE then, nothing twice, and nothing of optuna heard or left behind."""

from __future__ import annotations

import itertools
import logging
import statistics
from random import Random

import optuna
import pytest

from burnish_miprov2._tpe import Asker, Choice


def worth(choice: Choice) -> float:
    """Best at the highest values."""
    return sum(choice) / 10


def asked(sizes: list[int], most: int, seed: int = 0, lag: int = 2, unknown: bool = False) -> list[Choice]:
    """Ask until there is no more, each told `lag` asks later; gives what was asked for."""
    asker = Asker(sizes, most, Random(seed))
    asker.tell((0,) * len(sizes), 0.0)
    choices: list[Choice] = []
    while (choice := asker.ask()) is not None:
        choices.append(choice)
        if len(choices) >= lag:
            told = choices[len(choices) - lag]
            asker.tell(told, None if unknown else worth(told))
    return choices


@pytest.mark.parametrize(("sizes", "most"), [([3, 6], 10), ([6, 6], 10), ([3, 2, 4, 3], 20), ([12], 8)])
def test_no_combination_is_given_twice(sizes: list[int], most: int) -> None:
    """DSPy repeats 13 to 28 % of its calls: here all trials are distinct, and none is the start."""
    choices = asked(sizes, most)
    assert (most, most) == (len(choices), len({*choices} - {(0,) * len(sizes)}))


@pytest.mark.parametrize("most", [5, 6, 100])
def test_a_small_space_is_enumerated(most: int) -> None:
    """DSPy raises a ValueError in a small space: here every combination is given once, in order."""
    assert [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] == asked([2, 3], most)
    assert [] == asked([1, 1], most)


def test_startup_is_in_proportion() -> None:
    """In DSPy's light mode TPE guides one trial of ten; here half of them, after each set and each instruction had its
    turn, as far as half of the trials allow."""
    first = asked([3, 6], 10)[:5]
    assert [{1, 2}, {1, 2, 3, 4, 5}] == [{choice[n] for choice in first} - {0} for n in (0, 1)]


def test_tpe_guides_the_search() -> None:
    """What is asked for after the startup is worth more than what chance gives, which is half of the most."""
    guided = [worth(choice) for seed in range(3) for choice in asked([6, 6], 12, seed)[5:]]
    assert 0.65 * worth((5, 5)) < statistics.fmean(guided)


def test_the_same_answers_ask_the_same() -> None:
    """R9, R12: one sequence in memory from one seed; another seed asks otherwise."""
    assert asked([6, 6], 10, 1) == asked([6, 6], 10, 1) != asked([6, 6], 10, 2)


def test_what_is_unknown_is_told_as_failed() -> None:
    """R7: optuna gets FAIL, never a score of 0; the search goes on where nothing is known at all."""
    asker = Asker([3, 3], 4, Random(0))
    choice = asker.ask()
    assert choice is not None
    asker.tell(choice, None)
    (trial,) = asker._study.trials
    assert (optuna.trial.TrialState.FAIL, None) == (trial.state, trial.value)
    assert 4 == len(asked([3, 3], 4, unknown=True))


def test_a_full_evaluation_is_told_beside_the_ask() -> None:
    """The ask is answered once; what a full evaluation says later is one observation more."""
    asker = Asker([3, 3], 4, Random(0))
    choice = asker.ask()
    assert choice is not None
    asker.tell(choice, 0.25)
    asker.tell(choice, 0.5)
    asker.tell(choice, None)
    assert [0.25, 0.5] == [trial.value for trial in asker._study.trials]


def test_optuna_is_silent_and_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed, levels, handlers and filters of its loggers are those of before, and a user's own study
    logs as ever."""

    def state() -> list[object]:
        names = [n for n in sorted(logging.root.manager.loggerDict) if n.split(".")[0] == "optuna"]
        loggers = [logging.getLogger(name) for name in names]
        return [(one.name, one.level, one.disabled, one.propagate, *one.handlers, *one.filters) for one in loggers]

    before = state()
    asked([6, 6], 10)
    assert before == state()
    assert ("", "") == capfd.readouterr()
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    listener = Listener()
    logging.getLogger("optuna").addHandler(listener)
    try:
        asked([6, 6], 10)
        assert [] == heard
        optuna.create_study()
        assert 1 == len(heard)
    finally:
        logging.getLogger("optuna").removeHandler(listener)


def test_every_combination_can_be_reached() -> None:
    """One short of the whole space, all but one are given."""
    whole = {*itertools.product(range(3), range(3))} - {(0, 0)}
    assert 1 == len(whole - {*asked([3, 3], 7)})
