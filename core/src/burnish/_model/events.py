"""Everything that happens in a run, as values; the run's state is their fold (`state.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, TypeAlias

import attrs

from burnish._model.budget import ZERO, RoleSpend, Spend
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json
from burnish._model.outcome import Fault, RolloutRecord

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
class Resumed:
    """The run began again, after it was stopped or killed."""

    facts: Mapping[str, Json] = attrs.field(factory=dict)
    """What it is made of now; it may differ from the start in versions, if that was accepted."""


@attrs.frozen(kw_only=True)
class Rewound:
    """What a strategy was told after an event holds no more: from there on the run went another way.

    Results that were recorded after it stay answers, and what they cost stays spent.
    """

    to: int
    """Number of the last event that holds."""
    spend: Spend
    """What was spent after it."""


@attrs.frozen(kw_only=True)
class Asked:
    """A strategy asked for something: written before any of it runs."""

    step: str
    """The step's path, and which ask in it: `stage 0/score 1#0`."""
    digest: str
    """Fingerprint of what was asked for."""
    what: str
    """The same for people."""
    chain: int | None = None
    """Which of the chains in flight asked; None where nothing else could ask meanwhile."""


@attrs.frozen(kw_only=True)
class Told:
    """An ask was answered: a run that begins again is told the same from what landed under this step."""

    step: str
    shown: int = 0
    """How many of the requests the answer covers, the leading ones."""
    cap: str | None = None
    """The cap that refused the rest."""
    needed: int = 0
    """Rollouts that the rest takes."""


@attrs.frozen(kw_only=True)
class Lost:
    """A rollout or call that started has no end: it was cancelled, or the run was killed.

    What it had spent counts, or what it had reserved, where nobody knows.
    """

    key: str
    example: int = 0
    """Its column; of a call its place in the ask."""
    sample: int = 0
    step: str = ""
    split: Split = "search"
    spend: Spend = Spend()
    held: Decimal = ZERO
    """What requests of it may have cost beside that, of which nobody knows."""


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
class RequestSent:
    """A model was asked, where something is capped: written before the request leaves, at the most that it can take.

    What lands says what it took. Where nothing lands, since the run was killed, this is what counts.
    """

    key: str
    example: int = 0
    """The column of the rollout that it is made in; of a strategy's own call its place in the ask."""
    sample: int = 0
    step: str = ""
    split: Split = "search"
    spend: Spend


@attrs.frozen(kw_only=True)
class Admitted:
    """What of an evaluation the budget had room for, before any of it runs: a resumed run goes on with the same."""

    step: str
    part: int
    """Which leading part of its requests: -1 for all of them."""
    cap: str | None = None
    """The cap that refused the rest."""


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
    room: Spend = Spend()
    """Where something is capped: the most that it took at once, with the bounds of requests under way."""
    held: Decimal = ZERO
    """What requests of it may have cost, of which nobody knows."""


@attrs.frozen(kw_only=True)
class CallStarted:
    """A strategy's own call (of a proposer) was admitted: written before it is dispatched."""

    key: str
    role: str
    number: int = 0
    """Its place in the ask."""
    step: str = ""


@attrs.frozen(kw_only=True)
class CallLanded:
    """The answer of a strategy's own call: written the moment it lands, before anyone is told."""

    key: str
    role: str
    number: int = 0
    calls: Mapping[str, RoleSpend] = attrs.field(factory=dict)
    output: Json = None
    fault: Fault | None = None
    """Why there is no output."""
    held: Decimal = ZERO
    """What requests of it may have cost, of which nobody knows."""
    step: str = ""


@attrs.frozen(kw_only=True)
class Charged:
    """Spend that the engine did not make itself was added by its caller."""

    spend: Spend


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
    | Resumed
    | Rewound
    | Asked
    | Told
    | Lost
    | RequestSent
    | Admitted
    | CandidateRegistered
    | RolloutStarted
    | RolloutLanded
    | CallStarted
    | CallLanded
    | Charged
    | Warned
    | RunEnded
)
