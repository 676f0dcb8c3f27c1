"""The seed's engine for programs as data: a face over the core's (seed 000; E48-E54)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import burnish
from burnish_programs.ir._overlay import Overlay
from burnish_programs.ir._values import DemoRow


class ProgramEvalEngine(burnish.EvalEngine):
    """Evaluate overlays of a program over labeled rows: `burnish.EvalEngine` in the program's own terms.

    Columns are the rows, in order. The metric gets `(row, output, trace)`: a `DemoRow`, a mapping of the outputs, and
    the rollout's trace, whose `meta` has the overlay's hash as `candidate_hash` and the program's as `tags["program"]`.
    Programs are given as an `Interpreter`, or as `interpreter.target(budget=...)` to cap each rollout.

        engine = ir.ProgramEvalEngine(rows, metric)
        i = engine.register(overlay)
        outcome = await engine.evaluate_program_candidates(interpreter, [i])
    """

    def __init__(
        self, examples: Iterable[DemoRow], metric: Any, config: burnish.EngineConfig | None = None, **parts: Any
    ) -> None:
        super().__init__(examples, metric, config, **parts)
        self._overlays: dict[int, Overlay] = {}

    def register(self, candidate: Overlay | burnish.Candidate) -> int:
        """Give the overlay's index; one of known content, its base included, keeps its old one (E49)."""
        if isinstance(candidate, burnish.Candidate):
            return super().register(candidate)
        index = super().register(candidate.to_candidate())
        self._overlays.setdefault(index, candidate)
        return index

    def candidate(self, index: int) -> Any:
        """Give a registered overlay, as it was given; after `resume` its candidate, until it is given anew.

        Raises `UnknownIndexError`.
        """
        registered = super().candidate(index)
        return self._overlays.get(index, registered)

    async def evaluate_program_candidates(
        self, interp: Any, candidates: Sequence[int], subset: Sequence[int] | None = None
    ) -> burnish.Complete | burnish.BudgetExhausted:
        """Evaluate several overlays in one fan-out; gives one evaluation each, in the order of the request (E50).

        Raises as `evaluate` does, and `BaseMismatchError` for an overlay of another program; nothing ran then.
        """
        return await self.evaluate_many(interp, candidates, subset)
