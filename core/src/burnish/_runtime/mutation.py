"""The seed's mutation seam, for programs that cannot read a candidate in place (seed 000; E22, E23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import attrs

from burnish import abc
from burnish._model.candidate import Candidate
from burnish._model.parameter import PredictState
from burnish.errors import UnknownParameterError, UsageError


def predictors_of(module: Any) -> Mapping[str, abc.Predictor]:
    """Give the predictors of a module by name; none where it declares none."""
    find = getattr(module, "predictors", None)
    return dict(find()) if callable(find) else {}


@attrs.frozen
class CandidateUndo:
    """What `restore_candidate` needs: the states of the predictors that a candidate touched."""

    states: Mapping[str, PredictState]


@runtime_checkable
class MutableTarget(Protocol):
    """What a target with `apply` injection offers beside `run`."""

    def apply(self, candidate: Candidate) -> CandidateUndo: ...

    def restore(self, undo: CandidateUndo) -> None: ...


def apply_candidate(module: Any, candidate: Candidate) -> CandidateUndo:
    """Write a candidate into a module's predictors, in the order of their names: the one writer.

    If one fails, those already written are put back before the error is raised. Raises `UnknownParameterError` for a
    name that the module does not have; the module is then as it was.
    """
    predictors = predictors_of(module)
    for name in candidate.overlays:
        if name not in predictors:
            raise UnknownParameterError(name, tuple(predictors))
    before: dict[str, PredictState] = {}
    try:
        for name, overlay in candidate.overlays.items():
            state = predictors[name].get_state()
            before[name] = state
            predictors[name].set_state(state.updated(overlay))
    except Exception as error:
        try:
            restore_candidate(module, CandidateUndo(before))
        except Exception as second:
            raise UsageError(f"applying the candidate failed ({error}), and so did undoing it ({second})") from error
        raise
    return CandidateUndo(before)


def restore_candidate(module: Any, undo: CandidateUndo) -> None:
    """Put the states back. Every predictor is tried; then the first failure is raised."""
    predictors = predictors_of(module)
    first: tuple[str, Exception] | None = None
    for name, state in undo.states.items():
        try:
            predictors[name].set_state(state)
        except Exception as error:
            first = first or (name, error)
    if first is not None:
        raise UsageError(f"failed to restore `{first[0]}`: {first[1]}") from first[1]
