"""What happens in a run, as values: what sinks are given, handles show, and run stores hold.

`State` and `fold` are the one bookkeeping of them: spend, scores and candidates are the fold of a run's events.
"""

from __future__ import annotations

from burnish._model import codec as _codec
from burnish._model.events import Admitted as Admitted
from burnish._model.events import Asked as Asked
from burnish._model.events import CallLanded as CallLanded
from burnish._model.events import CallStarted as CallStarted
from burnish._model.events import CandidateRegistered as CandidateRegistered
from burnish._model.events import Charged as Charged
from burnish._model.events import Event as Event
from burnish._model.events import Lost as Lost
from burnish._model.events import RequestSent as RequestSent
from burnish._model.events import Resumed as Resumed
from burnish._model.events import Rewound as Rewound
from burnish._model.events import RolloutLanded as RolloutLanded
from burnish._model.events import RolloutStarted as RolloutStarted
from burnish._model.events import RunEnded as RunEnded
from burnish._model.events import RunStarted as RunStarted
from burnish._model.events import Told as Told
from burnish._model.events import Warned as Warned
from burnish._model.state import State as State
from burnish._model.state import fold as fold
from burnish._runtime.run_store import read_events as read_events


def dumps(event: Event) -> str:
    """Write an event as JSON text, as run stores and `sink.jsonl` hold it; its `type` is in it."""
    return _codec.dumps(event, Event)


def loads(text: str | bytes) -> Event:
    """Read an event back; fields that this version does not know are passed over. Raises `StoreError`."""
    return _codec.loads(text, Event)  # type: ignore[arg-type]
