"""What decides a rollout's result, as keys: the seed's recipe with program code, metric, models and sample folded in.

`baseline:candidate:example:salt`, 16 hex digits each (seed 000; E31-E34). What has no content identity (an open client,
a mutable list in a closure) is told apart by object within one engine and never shared between processes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import attrs

from burnish import abc
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json, JsonMap, fingerprint, hash64, hex64
from burnish._model.example import Example
from burnish._runtime.codeprint import CodePrint, code_print, same_code
from burnish._runtime.metric import MetricRunner
from burnish._runtime.model_calls import CallableModel, as_model


@attrs.frozen(kw_only=True)
class Baseline:
    """Everything but candidate, example and salt: for results under this metric, and for outputs under any."""

    scored: str
    output: str
    salt: str
    volatile: bool
    """Whether it holds something without a content identity."""


@attrs.frozen(eq=False)
class Identity:
    """The keys of one rollout."""

    baseline: Baseline
    candidate: Candidate
    example: Example

    key: str = attrs.field(init=False)
    """Key of the scored result."""

    @key.default
    def _scored_key(self) -> str:
        return self._key(self.baseline.scored)

    @property
    def output_key(self) -> str:
        """Key of the output alone, whatever the metric."""
        return self._key(self.baseline.output)

    def _key(self, baseline: str) -> str:
        middle = f"{self.candidate.stable_hash:016x}:{self.example.uid:016x}"
        return f"{baseline[:16]}:{middle}:{self.baseline.salt}"

    def check(self, *, output: bool = False) -> str:
        """128-bit fingerprint of everything behind the key."""
        baseline = self.baseline.output if output else self.baseline.scored
        return fingerprint(f"{baseline}:{self.candidate.fingerprint}:{self.example.fingerprint}:{self.baseline.salt}")


class Identities:
    """Makes the identities of one engine."""

    def __init__(self, metric: MetricRunner, salt: int, failure_score: float = 0.0) -> None:
        self._metric, self._salt = metric, salt
        # Only where it is set, so that the results of most engines stay shared with those that never knew it.
        self._failure: list[Json] = [float(failure_score)] if failure_score else []
        self._nonce = uuid.uuid4().hex
        self._seen: list[Any] = []
        self._printed: list[tuple[Any, CodePrint]] = []

    def baseline(self, target: abc.Target, program_print: str, models: Mapping[str, Any], sample: int) -> Baseline:
        """Fold program, models, metric and sample index together."""
        opaque: list[Any] = list(getattr(target, "opaque", ()))
        identities = {role: self._model(model, opaque) for role, model in sorted(models.items())}
        program: list[Json] = [program_print, identities, sample, self._tokens(opaque)]
        metric_opaque = self._metric.code_print.opaque
        metric: list[Json] = [self._metric.fingerprint, self._tokens(list(metric_opaque)), *self._failure]
        output, scored = fingerprint(["output", program]), fingerprint(["scored", program, metric])
        return Baseline(
            scored=f"{hash64(scored):016x}{scored}",
            output=f"{hash64(output):016x}{output}",
            salt=hex64(self._salt),
            volatile=bool(opaque or metric_opaque),
        )

    def facts(self, target: abc.Target, models: Mapping[str, Any]) -> JsonMap:
        """Say which models there are, and name the kinds of objects that have no content identity."""
        opaque: list[Any] = [*getattr(target, "opaque", ()), *self._metric.code_print.opaque]
        identities = {role: fingerprint(self._model(model, opaque)) for role, model in sorted(models.items())}
        volatile = ", ".join(dict.fromkeys(f"a {type(thing).__qualname__}" for thing in opaque))
        return {"models": dict[str, Json](identities), "volatile": volatile}

    def _tokens(self, objects: list[Any]) -> Json:
        """Name objects without a content identity by order of first sight, in a name space of this engine alone."""
        if not objects:
            return None
        tokens: list[Json] = [self._nonce]
        for thing in objects:
            known = next((i for i, seen in enumerate(self._seen) if seen is thing), None)
            if known is None:
                known = len(self._seen)
                self._seen.append(thing)
            tokens.append(known)
        return tokens

    def _model(self, model: Any, opaque: list[Any]) -> Json:
        wrapped = as_model(model)
        if not isinstance(wrapped, CallableModel):
            return dict(wrapped.identity)
        printed = self._print_once(wrapped.function)
        opaque.extend(printed.opaque)
        return printed.fingerprint

    def _print_once(self, function: Any) -> CodePrint:
        """Fingerprint a callable as it was when first seen: one that counts its calls stays the same model."""
        for known, printed in self._printed:
            if same_code(known, function):
                return printed
        self._printed.append((function, code_print(function)))
        return self._printed[-1][1]
