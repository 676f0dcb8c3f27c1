"""A strategy's own calls: proposers are ordinary small programs that the engine runs, pays for and records."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import trio

from burnish import abc
from burnish._model.budget import spend_of_calls
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json, JsonMap, fingerprint, to_json
from burnish._model.events import CallLanded, CallStarted, Lost, RequestSent, Told
from burnish._model.outcome import Fault
from burnish._runtime.blame import blame, stops
from burnish._runtime.capture import as_data, unrecorded
from burnish._runtime.fanout import fan_out
from burnish._runtime.faults import counted, fault_of, is_usage, not_run
from burnish._runtime.rations import Bound, sent
from burnish._runtime.scope import Account, accounted, current_models, injected
from burnish._runtime.target import as_target
from burnish.errors import BudgetExceededError, CallFailedError, RunStoppedError

if TYPE_CHECKING:
    from burnish._runtime.evaluator import Evaluator

NO_CANDIDATE = Candidate()


@attrs.frozen(kw_only=True)
class CallRequest:
    """One run of a small program outside of the evaluation: a proposal, a reflection, a summary."""

    program: Any = attrs.field(repr=False)
    inputs: Mapping[str, Any]
    """What it is given, by name; it has a JSON form."""
    role: str = "proposer"
    """Whose model answers, and under what its calls are booked; predictors of the role `task` take it, too."""
    sample: int | None = None
    """Which reply of equal requests it is; None numbers them in order."""


@attrs.frozen(kw_only=True)
class Reply:
    """What came of a call: a prediction, or why there is none."""

    prediction: Any = None
    fault: Fault | None = None

    @property
    def cap(self) -> str | None:
        """The cap that left no room for it; None where none did."""
        return self.fault.message if self.fault is not None and self.fault.where == "budget" else None

    def get(self) -> Any:
        """Give the prediction. Raises `BudgetExceededError` where a cap struck, else `CallFailedError`."""
        if self.fault is None:
            return self.prediction
        if self.fault.where == "budget":
            raise BudgetExceededError(f"the budget's {self.cap} left no room for a call", cap=self.fault.message)
        raise CallFailedError(self.fault)


@attrs.define(eq=False)
class _Call:
    """One call of an ask."""

    number: int
    request: CallRequest
    target: abc.Target
    sample: int
    content: JsonMap
    landed: CallLanded | None = None

    @property
    def key(self) -> str:
        return fingerprint(self.content)


class Calls:
    """Runs the calls of one evaluator's strategies on its slots, models and ledger."""

    def __init__(self, evaluator: Evaluator, slots: trio.Semaphore) -> None:
        self._evaluator, self._slots = evaluator, slots
        self._targets: dict[int, tuple[Any, abc.Target]] = {}
        """By the program's id, with the program itself, so that no other can have that id."""

    async def ask(self, requests: Sequence[CallRequest], step: str) -> list[Reply]:
        """Run calls at once; gives their replies in order, failures among them as values.

        Raises `UsageError` before anything is spent for inputs without a JSON form, `RunStoppedError` where a failure
        would meet every further call. Cancelled, what has landed is recorded.
        """
        calls = self._prepared(requests)
        step, told = await self._begin(calls, step)
        if told is None:
            todo = [call for call in calls if call.landed is None]
            await fan_out([todo], self._slots, lambda call, release: self._one(call, release, step), _admitted)
            fatal = next((c.landed.fault for c in calls if c.landed and c.landed.fault and c.landed.fault.fatal), None)
            if fatal is not None:
                raise RunStoppedError(f"the run stopped: {fatal}; what was paid for is kept")
            cap = next((reply.cap for reply in map(_reply, calls) if reply.cap is not None), None)
            self._evaluator.emit(Told(step=step, shown=len(calls), cap=cap))
            await self._evaluator.flush()
        return [_reply(call) for call in calls]

    def _target(self, program: Any) -> abc.Target:
        """Make a target of a program once, however often it is called."""
        known = self._targets.get(id(program))
        if known is None:
            known = self._targets[id(program)] = (program, as_target(program))
        return known[1]

    def _prepared(self, requests: Sequence[CallRequest]) -> list[_Call]:
        seen: Counter[str] = Counter()
        calls = []
        for number, request in enumerate(requests):
            target = self._target(request.program)
            content: JsonMap = {
                "program": target.fingerprint, "inputs": to_json(dict(request.inputs), "inputs"), "role": request.role
            }
            digest = fingerprint(content)
            sample = seen[digest] if request.sample is None else request.sample
            seen[digest] += 1
            calls.append(_Call(number, request, target, sample, {**content, "sample": sample}))
        return calls

    async def _begin(self, calls: list[_Call], step: str) -> tuple[str, Told | None]:
        asks, roles = self._evaluator.asks, Counter(call.request.role for call in calls)
        if asks is None:
            return step, None
        what = " and ".join(f"{count} calls of the {role}" for role, count in roles.items()) or "no calls"
        content: list[Json] = [call.content for call in calls]
        step, recorded = await asks.begin(step, ["call", content], what)
        for event in recorded.events:
            if isinstance(event, CallLanded) and event.number < len(calls):
                known = recorded.told is not None or event.fault is None or event.fault.where == "program"
                calls[event.number].landed = event if known else None
        self._evaluator.settle_lost(recorded.lost)
        return step, recorded.told

    async def _one(self, call: _Call, release: Callable[[], None], step: str) -> None:
        evaluator, request = self._evaluator, call.request
        evaluator.emit(CallStarted(key=call.key, role=request.role, number=call.number, step=step))
        await evaluator.flush()
        account = Account(
            role=request.role,
            task_is=request.role,
            sample=call.sample,
            ledger=evaluator.ledger,
            limits=evaluator.limits,
            note=partial(self._note, call, step) if evaluator.asks is not None and evaluator.ledger.rations else None,
            token=trio.lowlevel.current_trio_token(),
        )
        try:
            output, fault = await self._run(call, account)
        except BaseException:
            spent = spend_of_calls(account.calls)
            evaluator.emit(Lost(key=call.key, example=call.number, step=step, spend=spent, held=account.held))
            raise
        release()
        call.landed = CallLanded(
            key=call.key,
            role=request.role,
            number=call.number,
            calls=dict(account.calls),
            output=output,
            fault=fault,
            held=account.held,
            step=step,
        )
        evaluator.emit(call.landed)
        await evaluator.flush()

    async def _note(self, call: _Call, step: str, role: str, bound: Bound) -> None:
        """Write down that a request of a call leaves: if the run is killed now, it counts."""
        spend = sent(role, bound)
        self._evaluator.emit(RequestSent(key=call.key, example=call.number, step=step, spend=spend))
        await self._evaluator.flush()

    async def _run(self, call: _Call, account: Account) -> tuple[Json, Fault | None]:
        """Run the program as it is: no candidate is in force, and nothing of it enters a trace."""
        evaluator, inputs = self._evaluator, dict(call.request.inputs)
        models = {**current_models(), **evaluator.models}
        output, failed = None, None
        handled = sys.exception()  # what the caller of the run is handling: it stands in each error's context here
        with accounted(account, models), injected(None), unrecorded(), evaluator.watch.on():
            try:
                output = as_data(await call.target.run(inputs, NO_CANDIDATE))
            except BaseException as raised:
                stop = stops(raised)
                if stop is not None:
                    raise stop from None
                error = blame(raised, handled)
                failed = fault_of(error)
                if is_usage(error):
                    raise error from error.__cause__
        fault = counted(failed, account)
        if fault is not None and fault.where == "budget":
            fault = attrs.evolve(fault, message=account.refused or fault.message)
        if fault is None and account.cut:  # half a text is no proposal, however well it reads
            fault = Fault(type="Truncated", message="an answer ended at its bound of tokens")
        return (output, None) if fault is None else (None, fault)


def _reply(call: _Call) -> Reply:
    landed = call.landed
    if landed is None:
        return Reply(fault=not_run("call"))
    if landed.fault is not None:
        return Reply(fault=landed.fault)
    load = getattr(call.target, "load_prediction", None)
    return Reply(prediction=landed.output if load is None else load(landed.output))


async def _admitted(_: _Call) -> bool:
    return True
