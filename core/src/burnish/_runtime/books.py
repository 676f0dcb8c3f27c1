"""The registry, ledger and events of one evaluator: whatever happens is booked here, and written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from burnish._model.budget import Spend
from burnish._model.candidate import Candidate
from burnish._model.events import CandidateRegistered, Charged, Event, Lost, Warned
from burnish._model.state import State
from burnish._runtime.asks import Asks
from burnish._runtime.journal import Journal
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.log import log
from burnish.errors import InternalError, UnknownIndexError


class Books:
    """Candidates, scores and spend as they stand, the ledger behind them, and the journal that keeps what happens.

    Spend is booked twice: in `state` by each event, so that the events alone tell it, and in `ledger`, which answers
    before an event is there. What an event costs there:

    | event | in the ledger |
    |---|---|
    | `RolloutLanded`, `live` | its requests when they ended, itself where it lands (`Dispatcher._land`) |
    | `RolloutLanded`, `scored` | the judge's requests when they ended |
    | `RolloutLanded`, `cache` or `store` | a hit (`Evaluator._tell`) |
    | `CallLanded` | its requests when they ended |
    | `Lost`, cancelled | its requests when they ended; itself where it had made any (`Dispatcher._lose`) |
    | `Lost`, killed | all that the event says, when the run begins again (`settle_lost`) |
    | `Charged` | all that the event says (`charge`) |
    | any, of an earlier life | what it added to the state (`replayed`) |
    """

    def __init__(self, columns: int, ledger: Ledger, limits: Limits | None, journal: Journal | None) -> None:
        self.state = State(columns)
        self.ledger = ledger
        self.limits = limits or Limits(self._warn_paused)
        self.journal = journal
        """Where its events go; None: nowhere."""
        self.asks = None if journal is None else Asks(journal, self.replayed)
        """What strategies ask; None where nobody keeps it."""
        self._warned: set[str] = set()
        self.listeners: list[Callable[[Event], None]] = []
        """Told of each event that is booked."""

    def register(self, candidate: Candidate) -> int:
        """Give the candidate's index: the old one where its content is known."""
        known = self.state.index.get(candidate.stable_hash)
        if known is None:
            known = len(self.state.candidates)
            self.emit(CandidateRegistered(index=known, candidate=candidate))
        elif self.state.candidates[known] != candidate:
            raise InternalError(f"two candidates share the 64-bit hash {candidate.stable_hash:016x}")
        return known

    def candidate(self, index: int) -> Candidate:
        """Give a registered candidate. Raises `UnknownIndexError`."""
        if not 0 <= index < len(self.state.candidates):
            raise UnknownIndexError(f"candidate index {index} is not registered")
        return self.state.candidates[index]

    def emit(self, event: Event) -> None:
        """Book an event and write it into the run's journal."""
        self._book(event)
        if self.journal is not None:
            self.journal.emit(event)

    def _book(self, event: Event) -> None:
        self.state.apply(event)
        for listen in self.listeners:
            listen(event)

    def replayed(self, event: Event) -> None:
        """Book an event that the journal holds already: nothing of it runs or is paid again."""
        self._book(event)
        self.ledger.replay(event, self.hash_of)
        if isinstance(event, Warned):
            self._warned.add(event.kind if event.kind == "unread" else event.message)
        if self.journal is not None:
            self.journal.seen(event)

    def settle_lost(self, lost: Iterable[Lost]) -> None:
        """Count what was under way when the run was killed as spent."""
        for event in lost:
            self.ledger.book(event.spend)
            self.emit(event)

    def hash_of(self, index: int) -> int:
        """Give a registered candidate's content hash."""
        return self.candidate(index).stable_hash

    async def flush(self) -> None:
        """Have all that happened so far committed to the run store; cancellation waits for that."""
        if self.journal is not None:
            await self.journal.flush()

    def charge(self, spend: Spend) -> None:
        """Book spend that the caller made itself."""
        self.ledger.book(spend)
        self.emit(Charged(spend=spend))

    def warn(self, kind: str, message: str) -> None:
        """Say something once: to the log, the run store and whoever watches. Of the kind `unread` one is enough."""
        what = kind if kind == "unread" else message
        if what not in self._warned:
            self._warned.add(what)
            self._say(kind, message)

    def _say(self, kind: str, message: str, seconds: float | None = None) -> None:
        log.warning(message, kind=kind)
        self.emit(Warned(kind=kind, message=message, seconds=seconds))

    def _warn_paused(self, seconds: float, why: str) -> None:
        """Tell each pause, equal ones too: nothing else is heard of the run meanwhile."""
        message = f"the endpoint asks to wait {seconds:.0f} s ({why}); nothing is lost, the run goes on then"
        self._say("paused", message, seconds)
