"""What all predictors share: their state, the candidate in force, the call, the span."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import attrs

import burnish
from burnish import abc
from burnish.abc import LMRequest, LMResponse, Message, Usage
from burnish.errors import ContextLostError, UsageError
from burnish_programs._binding import InForce, in_force
from burnish_programs._prediction import Prediction
from burnish_programs._render import Prefix

L = TypeVar("L", bound="Leaf")

MOST_PREFIXES = 256
"""Rendered beginnings that one predictor keeps: as many candidates as may be in flight, and some."""


@attrs.frozen(kw_only=True)
class Settings:
    """How a predictor calls its model."""

    role: str = "task"
    temperature: float | None = None
    max_tokens: int | None = None

    def to_json(self) -> dict[str, Any]:
        return attrs.asdict(self)

    @property
    def sampling(self) -> dict[str, Any]:
        """What is set of the request's own sampling settings."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in own.items() if value is not None}


class CallMeter(Protocol):
    """Who is asked before a predictor's call, and told after it."""

    def reserve(self, at: str) -> None: ...

    def record_usage(self, usage: Usage) -> None: ...


@attrs.define(eq=False)
class _Admission:
    """One call before a meter."""

    meter: CallMeter
    at: str
    live: bool = False

    def __call__(self) -> None:
        self.meter.reserve(self.at)
        self.live = True

    def record(self, usage: Usage) -> None:
        """Tell the usage of a call that was made, rather than replayed."""
        if self.live:
            self.meter.record_usage(usage)


class Asked(NamedTuple):
    """What one call of a predictor gave."""

    outputs: dict[str, Any]
    response: LMResponse
    span_id: int | None
    """Of its span; None where nothing records."""


class _Prefixes:
    """Rendered beginnings by instruction and demos, the last ones used; safe to use from several threads.

    Demos are told apart by object: a candidate's overlay is frozen and lives as long as its rollouts, and hashing many
    demos on every call would cost more than it saves.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[Sequence[burnish.Demo], Prefix]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, leaf: Leaf, instruction: str, demos: Sequence[burnish.Demo]) -> Prefix:
        key = (instruction, id(demos))
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[1]
        prefix = leaf.render_prefix(instruction, demos)
        with self._lock:
            self._kept[key] = (demos, prefix)
            while len(self._kept) > MOST_PREFIXES:
                self._kept.popitem(last=False)
        return prefix


class Leaf(ABC):
    """A predictor: one call of a model with texts that can be tuned. Implements `burnish.abc.Predictor`.

    What it renders is read when it is called: the candidate in force, else its own state, else its declared default.
    """

    fallback_name: ClassVar[str] = "predict"

    def __init__(
        self,
        *,
        instruction: str | None,
        demos: Iterable[Mapping[str, Any]],
        model: Any,
        settings: Settings,
        name: str | None,
    ) -> None:
        if model is not None:
            burnish.as_model(model)
        self.name = name
        """Its name where no module gives it one."""
        self.model = model
        """The model it is pinned to; None: the one of its role."""
        self.settings = settings
        self._state = burnish.PredictState(instruction=instruction, demos=tuple(_demo(row) for row in demos))
        self._prefixes = _Prefixes()
        self._runs: dict[object, str] = {}
        """Its name in each run that has it under tuning."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; what was made of the public ones is made anew from then on."""
        super().__setattr__(name, value)
        if not name.startswith("_"):
            for made in [n for n in self.__dict__ if isinstance(getattr(type(self), n, None), cached_property)]:
                del self.__dict__[made]
            self._prefixes = _Prefixes()

    # --- what a kind of predictor decides ------------------------------------------------------------------------

    @property
    @abstractmethod
    def default_instruction(self) -> str:
        """The text where nothing else is set."""

    @property
    @abstractmethod
    def input_fields(self) -> Sequence[abc.InputField]:
        """What a row must give."""

    @abstractmethod
    def parameter(self, name: str) -> burnish.Parameter:
        """Describe it under a name, as it stands."""

    @abstractmethod
    def render_prefix(self, instruction: str, demos: Sequence[burnish.Demo]) -> Prefix:
        """Write the turns that all calls share."""

    @abstractmethod
    def render_call(self, instruction: str, inputs: Mapping[str, Any]) -> tuple[Message, ...]:
        """Write the turns of one call."""

    @abstractmethod
    def parse(self, response: LMResponse, prefix: Prefix) -> dict[str, Any]:
        """Read the outputs of a reply to turns that begin so. Raises `ParseError`."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Say as JSON what it is, state and model aside: part of the program's identity."""

    # --- state -------------------------------------------------------------------------------------------------

    def get_state(self) -> burnish.PredictState:
        """Give the instruction override and the demos."""
        return self._state

    def set_state(self, state: burnish.PredictState) -> None:
        """Write both."""
        self._state = state

    @property
    def instruction(self) -> str:
        """The instruction of its own, without a candidate: the override, else the default."""
        return self.default_instruction if self._state.instruction is None else self._state.instruction

    @property
    def demos(self) -> tuple[burnish.Demo, ...]:
        """The demos of its own, without a candidate."""
        return self._state.demos

    def shown(self, what: str) -> str:
        """Write it for people: `Predict('q -> a', instruction set, 2 demos)`."""
        demos = len(self._state.demos)
        said = [] if self._state.instruction is None else ["instruction set"]
        said += [f"{demos} demo{'s' * (demos > 1)}"] if demos else []
        return f"{type(self).__name__}({', '.join([what, *said])})"

    def copy(self: L) -> L:
        """Give one of the same kind, settings, model and state, whose state is its own from then on."""
        return copy.copy(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_prefixes", "_runs")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _prefixes=_Prefixes(), _runs={})

    def __deepcopy__(self: L, memo: dict[int, Any]) -> L:
        return self.copy()

    def enter_run(self, token: object, name: str) -> None:
        """Count a run that has this predictor under tuning, and what it calls it."""
        self._runs[token] = name

    def leave_run(self, token: object) -> None:
        """Count it out."""
        self._runs.pop(token, None)

    def predictors(self) -> dict[str, Leaf]:
        """Give itself by name: a predictor is a program of one."""
        return {self.name or self.fallback_name: self}

    def __burnish_target__(self) -> Any:
        """Give it as a `burnish.abc.Target`: a program of one predictor."""
        from burnish_programs._target import ModuleTarget

        return ModuleTarget(self)

    # --- the call ----------------------------------------------------------------------------------------------

    async def __call__(self, /, **inputs: Any) -> Prediction:
        """Ask the model; the inputs are the fields by name.

        Raises `UsageError` for missing or unknown fields and where no model is set, `ParseError` where the reply does
        not hold the outputs, and the model's own `ModelError`. Cancelled, the request in flight ends.
        """
        if self._runs and burnish.current_injection() is None:
            raise _context_lost(next(iter(list(self._runs.values())), self.name))
        self._check_inputs(inputs)
        force = in_force(self, self.name or self.fallback_name)
        model = burnish.model_for(self.settings.role) if self.model is None else self.model
        return Prediction((await self.ask(inputs, force, model)).outputs)

    async def ask(
        self,
        inputs: Mapping[str, Any],
        force: InForce,
        model: Any,
        more: tuple[Message, ...] = (),
        meter: CallMeter | None = None,
    ) -> Asked:
        """Render, ask `model` and parse, as one span; `more` are turns after those of the call.

        A `meter` is asked before a call that no replay answers, and told its usage after it; what it raises ends the
        span.
        """
        text, shared = self._rendered(force.overlay)
        prefix, suffix = shared.without(force.source), self.render_call(text, inputs) + more
        sampling = self.settings.sampling
        request = LMRequest(messages=prefix + suffix, layout=shared.layout, **sampling)
        with burnish.span(force.name, inputs) as span:
            if span is not None:
                identity = burnish.as_model(model).identity
                span.request(prefix, suffix, {**identity, **sampling})
            admission = None if meter is None else _Admission(meter, force.name)
            response = await burnish.call_model(model, request, role=self.settings.role, admit=admission)
            if admission is not None:
                admission.record(response.usage)
            if span is not None:
                span.exchange(response)
            outputs = self.parse(response, shared)
            if span is not None:
                span.output(outputs)
        return Asked(outputs, response, None if span is None else span.id)

    def sync(self, /, **inputs: Any) -> Prediction:
        """Do the same from sync code: a worker thread, a thread that carries the rollout's context, or no event loop.

        Raises `RuntimeError` on an event loop's own thread, where it would block everything.
        """
        return burnish.run_from_sync(lambda: self(**inputs))

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        fields = self.input_fields
        known = 0
        for field in fields:
            if field.name in inputs:
                known += 1
            elif field.required:
                break
        else:
            if known == len(inputs):
                return
        unknown = inputs.keys() - {field.name for field in fields}
        missing = [field.name for field in fields if field.required and field.name not in inputs]
        if unknown or missing:
            wrong = [f"lacks `{name}`" for name in missing] + [f"has no input `{name}`" for name in sorted(unknown)]
            raise UsageError(f"{self!r}: the call {', '.join(wrong)}")

    def _rendered(self, overlay: burnish.Overlay | None) -> tuple[str, Prefix]:
        """Give the instruction in force, and the turns that it and the demos in force make."""
        instruction, demos = self._state.instruction, self._state.demos
        if overlay is not None:
            if overlay.instruction is not None or overlay.clear_instruction:
                instruction = overlay.instruction
            if overlay.demos is not None:
                demos = tuple(overlay.demos)
        text = self.default_instruction if instruction is None else instruction
        return text, self._prefixes.get(self, text, demos)


def _demo(row: Mapping[str, Any]) -> burnish.Demo:
    return row if isinstance(row, burnish.Demo) else burnish.Demo(row)


def _context_lost(name: str | None) -> ContextLostError:
    return ContextLostError(
        f"`{name}` is being tuned and was called outside of its rollout, where it cannot tell which candidate it is to "
        "render. A thread started by hand does not carry the context: start it with "
        "`threading.Thread(target=contextvars.copy_context().run, args=(function, ...))` (trio's tasks and `to_thread` "
        "carry it by themselves). To use the program beside the run, use a `.copy()` of it"
    )
