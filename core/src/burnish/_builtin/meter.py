"""`meter.standard`: fixed caps, shared by the runs of one process."""

from __future__ import annotations

import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import attrs
import trio

from burnish import abc
from burnish.errors import ConfigError, UsageError
from burnish.hookspecs import hookimpl

UNITS: tuple[str, ...] = tuple(field.name for field in attrs.fields(abc.Amount))
"""What a lease counts in."""


def _cap(_: object, attribute: attrs.Attribute[int | None], value: int | None) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ConfigError(f"{attribute.name} of meter.standard is {value!r}; it must be a whole number, or left out")


@attrs.frozen(kw_only=True)
class MeterOptions:
    """Options of `meter.standard`: the most that may be leased, by unit; None is no cap."""

    metric_calls: int | None = attrs.field(default=None, validator=_cap)
    lm_calls: int | None = attrs.field(default=None, validator=_cap)
    requests: int | None = attrs.field(default=None, validator=_cap)
    tokens: int | None = attrs.field(default=None, validator=_cap)


@attrs.define
class _Held:
    amount: abc.Amount
    expires: float


class StandardMeter:
    """Grants leases while they fit the caps, in one process.

    What is granted counts until it comes back: what `release` says was not used at once, the rest of a released lease
    never; a lease that nobody releases comes back as a whole when its `ttl` is over, since nobody said what of it was
    used. A key asked again while it is held is the same lease, and its time starts anew; asked again after its release
    it is a new lease. `clock` gives seconds that only go forward.
    """

    def __init__(self, caps: MeterOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._caps: dict[str, int | None] = {unit: getattr(caps, unit) for unit in UNITS}
        self._used = dict.fromkeys(UNITS, 0)
        self._held: dict[str, _Held] = {}
        self._expiries: list[tuple[float, str]] = []
        self._clock = clock

    def __repr__(self) -> str:
        caps = ", ".join(f"{u} {self._used[u]}/{c}" for u, c in self._caps.items() if c is not None)
        return f"<StandardMeter {caps or 'without caps'}, {len(self._held)} leases>"

    async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
        """Grant the whole amount or nothing; `Exhausted.cap` is the first unit that does not suffice.

        In `Exhausted.remaining`, a unit without a cap has what was asked for. Raises `UsageError` for an amount below
        0, a `ttl` that is not above 0, or a key that is held with another amount. Cancelled, it has leased nothing.
        """
        await trio.lowlevel.checkpoint()
        asked = _amounts(request.amount)
        if min(asked.values()) < 0 or not request.ttl > 0:
            raise UsageError(f"lease `{request.key}`: amounts start at 0 and ttl above 0; it asks for {request}")
        now = self._clock()
        self._expire(now)
        held = self._held.get(request.key)
        if held is None:
            short = self._short(asked)
            if short is not None:
                return abc.Exhausted(cap=short, remaining=self._remaining(asked))
            self._add(asked, 1)
            held = self._held[request.key] = _Held(request.amount, now)
        elif held.amount != request.amount:
            raise UsageError(
                f"lease `{request.key}` is held for {held.amount}, now {request.amount} is asked for under the same "
                "key: release it first, or take another key"
            )
        held.expires = now + request.ttl
        heapq.heappush(self._expiries, (held.expires, request.key))
        return abc.Grant(key=request.key)

    async def release(self, key: str, unused: abc.Amount) -> None:
        """End a lease and take back what it did not use; an unknown or expired key changes nothing.

        More than was leased is never taken back. Cancelled, the lease is still held.
        """
        await trio.lowlevel.checkpoint()
        self._expire(self._clock())
        held = self._held.pop(key, None)
        if held is not None:
            back = _amounts(unused)
            self._add({u: min(max(0, back[u]), n) for u, n in _amounts(held.amount).items()}, -1)

    def _short(self, asked: dict[str, int]) -> str | None:
        for unit, cap in self._caps.items():
            if cap is not None and asked[unit] > 0 and self._used[unit] + asked[unit] > cap:
                return unit
        return None

    def _remaining(self, asked: dict[str, int]) -> abc.Amount:
        left = {u: asked[u] if cap is None else max(0, cap - self._used[u]) for u, cap in self._caps.items()}
        return abc.Amount(**left)

    def _add(self, amounts: dict[str, int], sign: int) -> None:
        for unit, amount in amounts.items():
            self._used[unit] += sign * amount

    def _expire(self, now: float) -> None:
        while self._expiries and self._expiries[0][0] <= now:
            when, key = heapq.heappop(self._expiries)
            held = self._held.get(key)
            if held is not None and held.expires == when:
                del self._held[key]
                self._add(_amounts(held.amount), -1)


def _amounts(amount: abc.Amount) -> dict[str, int]:
    return {unit: getattr(amount, unit) for unit in UNITS}


@asynccontextmanager
async def open_standard(
    options: MeterOptions | None, env: abc.Environment, *, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[StandardMeter]:
    """Open a meter with nothing leased."""
    yield StandardMeter(options or MeterOptions(), clock=clock)


@hookimpl
def burnish_meters() -> Iterable[abc.Spec[abc.Meter]]:
    """Offer `meter.standard`."""
    return [
        abc.Spec(
            name="standard",
            open=open_standard,
            options=MeterOptions,
            summary="fixed caps, shared by the runs of one process",
        )
    ]
