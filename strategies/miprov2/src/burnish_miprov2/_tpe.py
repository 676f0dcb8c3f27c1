"""TPE by ask and tell (optuna): which combination to try next, given what the earlier ones were worth."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from math import ceil, prod
from random import Random

import optuna

Choice = tuple[int, ...]
"""One value of each dimension; all zeros is the program as it is."""

VERSIONS = {name: version(name) for name in ("optuna", "numpy")}
"""What decides which combinations are asked for, beside the answers."""
REASKS = 4
"""Asks in a row that may repeat a known combination, before the nearest unknown one is taken instead."""


class Asker:
    """One study in memory: combinations of `sizes` values, none given twice, the all-zeros one never.

    The first combinations, at most half of `most`, show every value of every dimension in turn, in seeded order. Then
    TPE decides, multivariate, with what is in flight counted as no good so that asks in flight spread. What it asks for
    a second time tells it nothing new: that is marked as failed, and where TPE insists, the nearest unknown combination
    is taken. Where there are no more than `most` combinations all are given in order, and TPE is not asked.
    """

    def __init__(self, sizes: Sequence[int], most: int, rng: Random) -> None:
        self.space = prod(sizes)
        """How many combinations there are."""
        self.exhaustive = self.space - 1 <= most
        """Whether all of them are given."""
        self.most = min(most, self.space - 1)
        """How many are given at most."""
        self._sizes, self._rng, self._names = tuple(sizes), rng, [f"x{n}" for n in range(len(sizes))]
        start = (0,) * len(sizes)
        self._given: dict[Choice, optuna.trial.Trial | None] = {start: None}
        """Every combination so far, with its trial while that waits for a value."""
        if self.exhaustive:
            self._first: Iterator[Choice] = itertools.islice(itertools.product(*map(range, sizes)), 1, None)
            return
        self._first = itertools.islice(self._covering(), min(max(sizes) - 1, ceil(most / 2)))
        self._space: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(list(range(size)))
            for name, size in zip(self._names, sizes, strict=True)
        }
        with quiet():
            sampler = optuna.samplers.TPESampler(
                multivariate=True, constant_liar=True, n_startup_trials=1, seed=rng.getrandbits(32)
            )
            self._study = optuna.create_study(direction="maximize", sampler=sampler)

    @property
    def more(self) -> bool:
        """Whether there is a combination left to give."""
        return len(self._given) <= self.most

    def ask(self) -> Choice | None:
        """Give the next combination; None where all were given."""
        if not self.more:
            return None
        choice, trial = next(self._first, None), None
        if not self.exhaustive:
            with quiet():
                choice, trial = self._from_tpe() if choice is None else (choice, self._trial_of(choice))
        if choice is not None:
            self._given[choice] = trial
        return choice

    def tell(self, choice: Choice, value: float | None) -> None:
        """Tell what a combination was worth; None: nobody knows.

        The first value answers the ask. Later ones (of a full evaluation after a minibatch), and that of the all-zeros
        combination, which is never asked for, are told beside the asks.
        """
        if self.exhaustive:
            return
        trial, self._given[choice] = self._given[choice], None
        with quiet():
            if trial is not None:
                self._study.tell(trial, value, state=optuna.trial.TrialState.FAIL if value is None else None)
            elif value is not None:
                params = self._params(choice)
                self._study.add_trial(optuna.trial.create_trial(params=params, distributions=self._space, value=value))

    def _covering(self) -> Iterator[Choice]:
        """Give unknown combinations that show every value before any comes again; the start has shown the 0s."""
        decks = [self._rng.sample(range(1, size), size - 1) for size in self._sizes]
        while True:
            for deck, size in zip(decks, self._sizes, strict=True):
                if not deck:
                    deck.extend(self._rng.sample(range(size), size))
            choice = tuple(deck.pop() for deck in decks)
            yield choice if choice not in self._given else self._nearest(choice)

    def _from_tpe(self) -> tuple[Choice, optuna.trial.Trial]:
        for _ in range(REASKS):
            trial = self._study.ask(self._space)
            choice = tuple(int(trial.params[name]) for name in self._names)
            if choice not in self._given:
                return choice, trial
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        choice = self._nearest(choice)
        return choice, self._trial_of(choice)

    def _nearest(self, choice: Choice) -> Choice:
        """Give an unknown combination that differs in one value, where there is one, else any unknown one."""
        ways = [(n, value) for n, size in enumerate(self._sizes) for value in range(size)]
        for n, value in self._rng.sample(ways, len(ways)):
            other = (*choice[:n], value, *choice[n + 1 :])
            if other not in self._given:
                return other
        while choice in self._given:
            choice = tuple(self._rng.randrange(size) for size in self._sizes)
        return choice

    def _trial_of(self, choice: Choice) -> optuna.trial.Trial:
        self._study.enqueue_trial(self._params(choice))
        return self._study.ask(self._space)

    def _params(self, choice: Choice) -> dict[str, int]:
        return dict(zip(self._names, choice, strict=True))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep optuna's loggers silent in this thread while the block runs; their levels and handlers stay as they are."""
    here = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return threading.get_ident() != here

    known = list(logging.root.manager.loggerDict.items())
    loggers = [one for name, one in known if isinstance(one, logging.Logger) and f"{name}.".startswith("optuna.")]
    for logger in loggers:
        logger.addFilter(others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)

