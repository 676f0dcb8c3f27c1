"""What there is to choose from: instructions for every parameter, sets of demos for every predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from burnish import Candidate, Demo, Parameter
from burnish.abc import Problem
from burnish_miprov2._report import Proposed


class Space:
    """The instructions and sets of demos; the first of each is what the program has to begin with."""

    def __init__(self, problem: Problem, sets: int) -> None:
        self.start, self._most_sets = problem.start, sets
        self.parameters = _as_started(problem)
        """The parameters, with the instructions that the start has."""
        self.instructions = {
            name: [Proposed(parameter=name, index=0, text=p.instruction)] for name, p in self.parameters.items()
        }
        self.sets: dict[str, list[tuple[str, tuple[Demo, ...]]]] = {
            name: [("start", ())] for name, p in self.parameters.items() if p.takes_demos and sets > 1
        }
        """Origin and demos of each set."""

    @property
    def sizes(self) -> list[int]:
        """Number of values of each dimension: first the instructions, then the sets."""
        return [*map(len, self.instructions.values()), *map(len, self.sets.values())]

    def add_set(self, origin: str, demos: Mapping[str, tuple[Demo, ...]]) -> None:
        """Add one set for each predictor that has room and does not have it yet."""
        for name, known in self.sets.items():
            new = demos.get(name, ())
            if new and len(known) < self._most_sets and all(new != old for _, old in known):
                known.append((origin, new))

    def add_instruction(self, name: str, text: str, tip: str) -> None:
        """Add one instruction."""
        known = self.instructions[name]
        known.append(Proposed(parameter=name, index=len(known), text=text, tip=tip))

    def shown(self, name: str, number: int) -> Sequence[Demo]:
        """Give the demos of a set of the predictor, another one for each number; nothing where there are no sets."""
        sets = self.sets.get(name, [])
        return sets[1 + (number - 1) % (len(sets) - 1)][1] if len(sets) > 1 else ()

    def named(self, choice: Sequence[int]) -> dict[str, int]:
        """Say what a combination is made of."""
        names = [*(f"{name}/instruction" for name in self.instructions), *(f"{name}/demos" for name in self.sets)]
        return dict(zip(names, choice, strict=True))

    def candidate(self, choice: Sequence[int]) -> Candidate:
        """Put a combination on the start; what is 0 stays as it is."""
        candidate, split = self.start, len(self.instructions)
        for (name, texts), number in zip(self.instructions.items(), choice[:split], strict=True):
            if number:
                candidate = candidate.set_instruction(name, texts[number].text)
        for (name, sets), number in zip(self.sets.items(), choice[split:], strict=True):
            if number:
                candidate = candidate.set_demos(name, sets[number][1])
        return candidate


def _as_started(problem: Problem) -> dict[str, Parameter]:
    started = {}
    for name, parameter in problem.parameters.items():
        overlay = problem.start.overlays.get(name)
        own = None if overlay is None else overlay.instruction
        started[name] = parameter if own is None else attrs.evolve(parameter, instruction=own)
    return started
