"""What a run has leased of a meter: allowances from something larger than the run, such as a team's quota."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs
import trio

from burnish import abc
from burnish._runtime.blame import stops
from burnish._runtime.log import log
from burnish._runtime.owed import refusal_of
from burnish.errors import RunStoppedError, first_line


@attrs.define(eq=False)
class _Lease:
    """What the meter granted: rollouts that are still under way, and how many of them never ran."""

    request: abc.Lease
    under_way: int
    unused: int = 0
    renew_at: float = 0.0
    """When to ask for it anew: at half its time."""


class Leases:
    """The leases of one run. Their keys begin with `run`; without a meter everything is granted."""

    def __init__(self, meter: abc.Meter | None, run: str, clock: Callable[[], float]) -> None:
        self._meter, self._run, self._clock = meter, run, clock
        self._asked = 0
        self._leases: deque[_Lease] = deque()
        self._told = False

    @property
    def held(self) -> bool:
        """Whether there are any."""
        return bool(self._leases)

    async def lease(self, count: int) -> str | None:
        """Lease so many rollouts, all or none; gives the meter's cap that refused.

        Raises `RunStoppedError` where the meter fails, or answers what is neither a grant of this lease nor a refusal.
        What it may have granted then, or when this was cancelled, is given back later.
        """
        if self._meter is None:
            return None
        self._asked += 1
        request = abc.Lease(amount=_rollouts(count), key=f"{self._run}:{self._asked}")
        renew_at = self._clock() + request.ttl / 2
        try:
            refused = refusal_of(await self._meter.lease(request), request)
        except BaseException as error:
            self._leases.append(_Lease(request, 0, unused=count))  # it may have been granted; nobody knows
            stop = stops(error)
            if stop is not None:
                raise stop from None
            raise RunStoppedError(
                f"the meter `{type(self._meter).__qualname__}` failed on lease `{request.key}`: {first_line(error)}; "
                "what was paid for is kept: run again when it answers, or run without it"
            ) from error
        if refused is not None:
            return f"meter: {refused}"
        self._leases.append(_Lease(request, count, renew_at=renew_at))
        return None

    async def renew(self) -> None:
        """Ask anew for leases that are past half their time, so that none ends while its rollouts are under way.

        Called whenever a rollout ends; a rollout that takes longer than half of `abc.Lease.ttl` may outlive its lease.
        What a meter answers changes nothing, since the rollouts were granted; its silence costs five seconds.
        """
        for lease in list(self._leases):
            if self._meter is None or not lease.under_way or self._clock() < lease.renew_at:
                continue
            lease.renew_at = self._clock() + lease.request.ttl / 2
            try:
                with trio.fail_after(5):
                    await self._meter.lease(lease.request)
            except BaseException as error:
                stop = stops(error)
                if stop is not None:
                    raise stop from None
                log.warning("the meter did not renew a lease", lease=lease.request.key, error=first_line(error))
            finally:
                if lease not in self._leases:  # it ended meanwhile: what was asked for after its end is another one
                    self._leases.append(_Lease(lease.request, 0, unused=lease.request.amount.metric_calls))

    async def hand_back(self) -> None:
        """End the leases whose rollouts are over, so that the meter takes back what they did not use.

        A lease that is not ended comes back as a whole when its time is over, used or not. A meter that fails is told
        again with the next leases. Cancelled, it still tells, for at most five seconds.
        """
        over = [lease for lease in self._leases if not lease.under_way]
        self._leases = deque(lease for lease in self._leases if lease.under_way)
        while over and self._meter is not None:
            try:
                with trio.fail_after(5, shield=True):
                    await self._meter.release(over[0].request.key, _rollouts(over[0].unused))
            except BaseException as error:
                self._leases.extendleft(reversed(over))
                stop = stops(error)
                if stop is not None:
                    raise stop from None
                if not self._told:
                    self._told = True
                    log.warning("the meter did not take a lease back; it will be told again", error=first_line(error))
                return
            del over[0]

    def end(self, count: int, *, unused: bool) -> None:
        """Take rollouts off the oldest leases: the sums are exact, whichever lease each of them came from."""
        for lease in self._leases:
            ended = min(count, lease.under_way)
            lease.under_way -= ended
            lease.unused += ended if unused else 0
            count -= ended


def _rollouts(count: int) -> abc.Amount:
    return abc.Amount(metric_calls=count, lm_calls=count)
