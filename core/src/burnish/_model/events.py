"""Everything that happens in a run, as values; the run's state is their fold (`state.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from burnish._model.budget import RoleSpend, Spend
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json
from burnish._model.outcome import RolloutRecord

Split = Literal["search", "test"]
"""Whether a rollout belongs to the search or to the final test, whose rows never enter the matrix."""

Source = Literal["live", "cache", "store", "scored"]
"""`live`: it ran. `cache`, `store`: served. `scored`: a kept output was scored, no model was called."""


@attrs.frozen(kw_only=True)
class RunStarted:
    """The first event of a run."""

    run: str
    facts: Mapping[str, Json] = attrs.field(factory=dict)
    """Seed, fingerprints, versions: what a resume compares."""


@attrs.frozen(kw_only=True)
class CandidateRegistered:
    """A candidate got its index."""

    index: int
    candidate: Candidate


@attrs.frozen(kw_only=True)
class RolloutStarted:
    """A rollout was admitted: written before it is dispatched."""

    key: str
    candidate: int
    example: int
    sample: int = 0
    step: str = ""
    split: Split = "search"


@attrs.frozen(kw_only=True)
class RolloutLanded:
    """A rollout's answer: written the moment it lands, before anyone is told."""

    key: str
    candidate: int
    example: int
    sample: int = 0
    record: RolloutRecord
    source: Source = "live"
    step: str = ""
    split: Split = "search"


@attrs.frozen(kw_only=True)
class CallStarted:
    """A model call outside rollouts (a proposer) was admitted."""

    key: str
    role: str
    step: str = ""


@attrs.frozen(kw_only=True)
class CallLanded:
    """The answer of a model call outside rollouts."""

    key: str
    role: str
    calls: Mapping[str, RoleSpend] = attrs.field(factory=dict)
    output: Json = None
    error: str | None = None
    step: str = ""


@attrs.frozen(kw_only=True)
class Charged:
    """Spend that the engine did not make itself was added by its caller."""

    spend: Spend


@attrs.frozen(kw_only=True)
class Refused:
    """The budget refused a request; met again on replay, it is no answer."""

    needed: int
    cap: str
    step: str = ""


@attrs.frozen(kw_only=True)
class Warned:
    """Something that the user should know."""

    kind: str
    message: str
    seconds: float | None = None
    """How long it lasts from now on: of a pause that a provider asks for."""


@attrs.frozen(kw_only=True)
class RunEnded:
    """The last event of a run."""

    stop_reason: str
    best: Candidate | None = None


Event: TypeAlias = (
    RunStarted
    | CandidateRegistered
    | RolloutStarted
    | RolloutLanded
    | CallStarted
    | CallLanded
    | Charged
    | Refused
    | Warned
    | RunEnded
)
