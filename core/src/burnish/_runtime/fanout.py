"""The one module of the core that opens nurseries: bounded fan-outs, and services that live as long as a block."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any, TypeVar

import trio

T = TypeVar("T")


async def fan_out(
    groups: Sequence[Sequence[T]],
    slots: trio.Semaphore,
    work: Callable[[T, Callable[[], None]], Awaitable[None]],
    admit: Callable[[T], Awaitable[bool]],
) -> None:
    """Run `work` on every item of every group, at most as many at once as there are slots.

    When a slot is free, the next item of the group with the fewest in flight starts (the earliest group on ties), so
    that groups share the slots evenly and uneven groups leave none idle (seed 001; E83). `work(item, release)` calls
    `release` as soon as it needs the slot no longer, at the latest it returns. Each item is asked for by
    `admit(item)`, one after the other in the order of their start; it may wait, and once it says no, nothing starts
    any more. Cancellation cancels what is in flight.
    """
    waiting = [deque(group) for group in groups]
    in_flight = [0] * len(groups)
    open_groups = [g for g, items in enumerate(waiting) if items]

    async def run(group: int, item: T) -> None:
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                in_flight[group] -= 1
                slots.release()

        try:
            await work(item, release)
        finally:
            release()

    async with trio.open_nursery() as nursery:
        while open_groups:
            try:
                slots.acquire_nowait()  # free slots are filled at once, not one a turn of the event loop
            except trio.WouldBlock:
                await slots.acquire()
            group = min(open_groups, key=in_flight.__getitem__)
            admitted = False
            try:
                admitted = await admit(waiting[group][0])
            finally:
                if not admitted:
                    slots.release()
            if not admitted:
                break
            item = waiting[group].popleft()
            if not waiting[group]:
                open_groups.remove(group)
            in_flight[group] += 1
            nursery.start_soon(run, group, item, name=f"rollout {group}")


@asynccontextmanager
async def services(*run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run services beside the block; they are cancelled when it ends, and their failure ends the block."""
    async with trio.open_nursery() as nursery:
        for service in run:
            nursery.start_soon(service)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def background() -> AsyncIterator[Callable[[Callable[[], Awaitable[None]]], None]]:
    """Let calls run beside the block, which begins them; it ends when all have, and the failure of one ends all."""
    async with trio.open_nursery() as nursery:
        yield nursery.start_soon


async def gather(calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run independent calls together and give their results in order."""
    results: list[Any] = [None] * len(calls)

    async def one(index: int) -> None:
        results[index] = await calls[index]()

    async with trio.open_nursery() as nursery:
        for index in range(len(calls)):
            nursery.start_soon(one, index)
    return results


class Detached:
    """A call in a task that nobody has to wait for: one that ignores its cancellation holds up nobody else.

    Only the event loop waits for it, when it closes.
    """

    def __init__(self, call: Callable[[], Awaitable[None]]) -> None:
        self._call, self._scope, self._ended = call, trio.CancelScope(), trio.Event()
        self._error: BaseException | None = None
        trio.lowlevel.spawn_system_task(self._run, name="detached call", context=copy_context())

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._call()
        except BaseException as error:  # left to itself it would end the event loop
            self._error = error
        finally:
            self._ended.set()

    async def wait(self) -> None:
        """Wait for the call's end and raise what it raised. Cancelled, it leaves the call as it is."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    async def end(self, seconds: float) -> bool:
        """Cancel the call and wait so long for its end; says whether it has ended."""
        self._scope.cancel()
        with trio.move_on_after(seconds):
            await self._ended.wait()
        return self._ended.is_set()
