"""The caps that `tune` and `resume` take, as one value."""

from __future__ import annotations

from typing import Any

import attrs
from cyclopts import Parameter


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Caps:
    """Caps on what a run may spend; None is not said.

    Parameters
    ----------
    max_metric_calls
        Cap on rollouts.
    max_requests
        Cap on requests to models, retries included.
    max_tokens
        Cap on tokens.
    max_cost
        Cap in US dollars.
    max_seconds
        Cap on time.
    """

    max_metric_calls: int | None = None
    max_requests: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None

    def said(self) -> dict[str, Any]:
        """Give those that are said, as `burnish.Budget` takes them."""
        return attrs.asdict(self, filter=lambda _, cap: cap is not None)


UNSAID = Caps()
