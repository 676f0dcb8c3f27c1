"""Going on with a run that was stopped or killed: what must be as it was, and what may differ."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from burnish._model.budget import Budget
from burnish._model.canonical import Json
from burnish._runtime.journal import ReplayRules
from burnish.errors import ResumeRefusedError

_NAMES = {
    "rows": "the rows",
    "start": "the candidate that it starts from",
    "program": "the program",
    "metric": "the metric",
    "models": "a model or its settings",
    "strategies": "a strategy, its options or its replay version",
    "seed": "the seed",
    "salt": "the cache salt",
    "failure_score": "the failure score",
    "repeats": "how often rollouts are repeated",
}
"""What a run's answers depend on, by the name that it has among its facts."""


@attrs.frozen(kw_only=True)
class Resume:
    """How a run begins again: its strategy runs from the start, and the run store answers as far as it had come.

    Rows, program, metric, models, strategies and seed must be what they were; budget and concurrency may differ. Under
    another budget what was told is told again up to the first refusal.
    """

    continue_live: bool = False
    """Where the run asks something else than it did: go on with the results so far as answers, instead of refusing."""
    retry_failed: bool = False
    """Ask anew from the first rollout on that the infrastructure left unscored."""
    accept_versions: bool = False
    """Take other versions of Python and burnish, as long as the run asks what it asked."""

    def check(self, then: Mapping[str, Json], now: Mapping[str, Json]) -> None:
        """Refuse what is another run. Raises `ResumeRefusedError` that names what has changed."""
        changed = tuple(key for key in _NAMES if then.get(key) != now.get(key))
        if changed:
            raise ResumeRefusedError(
                f"the run cannot go on: {', '.join(_NAMES[key] for key in changed)} changed since it began; put it "
                "back, or start a new run on its answers (`burnish fork`)",
                changed,
            )
        if now.get("volatile"):
            raise ResumeRefusedError(
                f"the run cannot go on: {now['volatile']} cannot be told from what it was; give it a `fingerprint` "
                "attribute and start a new run",
                ("volatile",),
            )
        if then.get("versions") != now.get("versions") and not self.accept_versions:
            raise ResumeRefusedError(
                f"the run cannot go on: it began under {_told(then.get('versions'))}, this is "
                f"{_told(now.get('versions'))}; use those, or go on all the same (`--accept-versions`)",
                ("versions",),
            )

    def rules(self, budget: Budget) -> ReplayRules:
        """Say how the journal tells again what was told."""
        return ReplayRules(
            continue_live=self.continue_live,
            retry_failed=self.retry_failed,
            budget=budget_facts(budget),
        )


def budget_facts(budget: Budget) -> dict[str, Json]:
    """Give a budget's caps as JSON."""
    return {name: str(cap) for name, cap in attrs.asdict(budget).items() if cap is not None}


def _told(versions: Json) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else "?"
