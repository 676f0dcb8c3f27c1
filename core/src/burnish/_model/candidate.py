"""Candidates: partial changes of a program's texts, as data with a canonical hash (seed 000; E20-E25)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import attrs

from burnish._model.canonical import Json, JsonMap, canonical_bytes, fingerprint, hash64, to_json
from burnish._model.portable import Portable
from burnish.errors import UsageError


def _row(value: Mapping[str, Any]) -> Mapping[str, Json]:
    plain = to_json(value, "demo")
    if not isinstance(plain, dict):
        raise UsageError(f"a demo is a mapping of field names to values, not {value!r:.80}")
    return MappingProxyType(plain)


_WRAPPED = {"row", "source", "shadowed"}


@attrs.frozen(eq=False)
class Demo(Portable, Mapping[str, Json]):
    """A few-shot example: a flat row of input and output fields merged, and where it came from.

    It reads as the mapping that it is and equals any mapping of the same content.
    """

    row: Mapping[str, Json] = attrs.field(converter=_row)
    source: str | None = attrs.field(default=None, kw_only=True)
    """Fingerprint of the row it was made from; it is left out of the prompt that scores that very row."""
    shadowed: Mapping[str, Json] = attrs.field(factory=dict, converter=_row, kw_only=True)
    """Input values whose name an output field has too (`draft -> draft`): the row holds the output's value."""

    def __getitem__(self, key: str) -> Json:
        return self.row[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.row)

    def __len__(self) -> int:
        return len(self.row)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Demo):
            # by bytes, as hashes are: 1, 1.0 and True are equal in Python and three contents here (E21)
            return canonical_bytes(self.to_json()) == canonical_bytes(other.to_json())
        return isinstance(other, Mapping) and dict(self.row) == dict(other)

    def __hash__(self) -> int:
        return hash64(dict(self.row))

    def input_value(self, field: str) -> Json:
        """Give the value of an input field; None where the row has none."""
        return self.shadowed[field] if field in self.shadowed else self.row.get(field)

    def to_json(self) -> Json:
        """Give the canonical form: the flat row alone unless it has a source or shadowed values.

        A row whose own fields are named like the longer form takes it too, so that no two demos share a form.
        """
        if self.source is None and not self.shadowed and self.row.keys() != _WRAPPED:
            return dict(self.row)
        return {"row": dict(self.row), "source": self.source, "shadowed": dict(self.shadowed)}


def _demos(rows: Iterable[Mapping[str, Any]] | None) -> tuple[Demo, ...] | None:
    if rows is None:
        return None
    return tuple(row if isinstance(row, Demo) else Demo(row) for row in rows)


def _values(value: Mapping[str, Any]) -> Mapping[str, Json]:
    plain = to_json(value, "values")
    if not isinstance(plain, dict):
        raise UsageError(f"an overlay's `values` map kinds to values, not {value!r:.80}")
    return MappingProxyType(plain)


@attrs.frozen
class Overlay(Portable):
    """A partial change of one predictor or text: what is None is left alone.

    `demos=[]` removes the demos, `clear_instruction` puts the default instruction back.
    """

    instruction: str | None = None
    demos: Sequence[Demo] | None = attrs.field(default=None, converter=_demos)
    clear_instruction: bool = False
    values: Mapping[str, Json] = attrs.field(factory=dict, converter=_values, kw_only=True)
    """What else a program lets be changed here, by kind: `{"model": "large"}`."""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.instruction, (str, type(None))):
            raise UsageError(f"an instruction is text, not {type(self.instruction).__name__}")
        if self.instruction is not None and self.clear_instruction:
            raise UsageError("an overlay sets the instruction or clears it, not both")

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return self.instruction is None and self.demos is None and not self.clear_instruction and not self.values

    def __str__(self) -> str:
        lines = [] if self.instruction is None else [self.instruction]
        lines += ["(the default instruction)"] if self.clear_instruction else []
        lines += [f"{kind}: {json.dumps(value, ensure_ascii=False)}" for kind, value in self.values.items()]
        if self.demos is not None:
            lines += [f"demo: {json.dumps(dict(demo), ensure_ascii=False)}" for demo in self.demos] or ["(no demos)"]
        return "\n".join(lines)

    def to_json(self) -> JsonMap:
        """Give the canonical form; what is not set is not in it."""
        form: JsonMap = {}
        if self.instruction is not None:
            form["instruction"] = self.instruction
        if self.clear_instruction:
            form["clear_instruction"] = True
        if self.demos is not None:
            form["demos"] = [d.to_json() for d in self.demos]
        if self.values:
            form["values"] = dict(self.values)
        return form


def _overlays(value: Mapping[str, Overlay]) -> Mapping[str, Overlay]:
    for name, overlay in value.items():
        if not isinstance(name, str) or not isinstance(overlay, Overlay):
            raise UsageError(f"a candidate maps names to overlays; {name!r:.80} is mapped to {overlay!r:.80}")
    return MappingProxyType({name: value[name] for name in sorted(value) if not value[name].is_empty})


@attrs.frozen
class Candidate(Portable):
    """Overlays by predictor name. The empty candidate is the baseline: the program exactly as it is.

    Frozen: every `set_*` returns a new candidate. `str(candidate)` is for people to read, `to_json()` for files.
    """

    overlays: Mapping[str, Overlay] = attrs.field(factory=dict, converter=_overlays)
    base: str | None = attrs.field(default=None, kw_only=True)
    """Hash of the one program that it was made for; None: it fits every program that has its names."""

    def __hash__(self) -> int:
        return self.stable_hash

    def __str__(self) -> str:
        changed = [f"[{name}]\n{overlay}" for name, overlay in self.overlays.items()]
        return "\n\n".join(changed) or "(the program as it is)"

    def set_instruction(self, name: str, text: str) -> Candidate:
        """Change the instruction (or the whole text) of `name`."""
        return self._put(name, attrs.evolve(self._get(name), instruction=text, clear_instruction=False))

    def with_instruction(self, name: str, text: str) -> Candidate:
        """Change the instruction of `name`: the seed's name of `set_instruction`."""
        return self.set_instruction(name, text)

    def clear_instruction(self, name: str) -> Candidate:
        """Put the default instruction of `name` back."""
        return self._put(name, attrs.evolve(self._get(name), instruction=None, clear_instruction=True))

    def set_demos(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Candidate:
        """Change the demos of `name`; an empty list removes them."""
        return self._put(name, attrs.evolve(self._get(name), demos=tuple(rows)))

    def set_value(self, name: str, kind: str, value: Any) -> Candidate:
        """Change something of `name` that is neither instruction nor demos: `set_value("answer", "model", "large")`."""
        overlay = self._get(name)
        return self._put(name, attrs.evolve(overlay, values={**overlay.values, kind: value}))

    def merge(self, later: Candidate) -> Candidate:
        """Put `later` on top: what it sets wins, what it leaves alone stays."""
        merged = self
        for name, overlay in later.overlays.items():
            if overlay.instruction is not None:
                merged = merged.set_instruction(name, overlay.instruction)
            if overlay.clear_instruction:
                merged = merged.clear_instruction(name)
            if overlay.demos is not None:
                merged = merged.set_demos(name, overlay.demos)
            for kind, value in overlay.values.items():
                merged = merged.set_value(name, kind, value)
        return attrs.evolve(merged, base=self.base if later.base is None else later.base)

    def _get(self, name: str) -> Overlay:
        return self.overlays.get(name, Overlay())

    def _put(self, name: str, overlay: Overlay) -> Candidate:
        return Candidate({**self.overlays, name: overlay}, base=self.base)

    @property
    def is_empty(self) -> bool:
        """Whether it is the baseline."""
        return not self.overlays

    def to_json(self) -> JsonMap:
        """Give the canonical form: what is hashed and what files hold."""
        form: JsonMap = {name: overlay.to_json() for name, overlay in self.overlays.items()}
        return form if self.base is None else {"base": self.base, "overlays": form}

    @cached_property
    def stable_hash(self) -> int:
        """64-bit content hash, the same in every process and for every order of building (E21)."""
        return hash64(self.to_json())

    @cached_property
    def fingerprint(self) -> str:
        """128-bit content fingerprint, 32 hex digits."""
        return fingerprint(self.to_json())


def candidate_from_json(form: Json) -> Candidate:
    """Read `Candidate.to_json` back. Raises `UsageError` naming the place where the form is wrong."""
    if not isinstance(form, dict):
        raise UsageError(f"a candidate is a JSON object of overlays, not {type(form).__name__}")
    base, overlays = form.get("base"), form.get("overlays")
    if form.keys() == {"base", "overlays"} and isinstance(base, str) and isinstance(overlays, dict):
        return attrs.evolve(candidate_from_json(overlays), base=base)
    return Candidate({name: _overlay_from_json(name, value) for name, value in form.items()})


def _overlay_from_json(name: str, form: Json) -> Overlay:
    if not isinstance(form, dict) or not set(form) <= {"instruction", "clear_instruction", "demos", "values"}:
        raise UsageError(
            f"the overlay of `{name}` holds `instruction`, `clear_instruction`, `demos` and `values`, nothing else"
        )
    instruction, demos, clear = form.get("instruction"), form.get("demos"), form.get("clear_instruction", False)
    if not isinstance(instruction, (str, type(None))) or not isinstance(demos, (list, type(None))):
        raise UsageError(f"the overlay of `{name}` has an `instruction` that is no text or `demos` that are no list")
    if not isinstance(clear, bool):
        raise UsageError(f"the overlay of `{name}` has a `clear_instruction` that is neither true nor false")
    rows = None if demos is None else [demo_from_json(d, f"demo {i} of `{name}`") for i, d in enumerate(demos)]
    values = form.get("values", {})
    if not isinstance(values, dict):
        raise UsageError(f"the overlay of `{name}` has `values` that are no object")
    return Overlay(instruction=instruction, demos=rows, clear_instruction=clear, values=values)


def demo_from_json(form: Json, where: str = "a demo") -> Demo:
    """Read `Demo.to_json` back. Raises `UsageError` that says `where`."""
    if not isinstance(form, dict):
        raise UsageError(f"{where} is no JSON object")
    row, source, shadowed = form.get("row"), form.get("source"), form.get("shadowed")
    if form.keys() != _WRAPPED:
        return Demo(form)
    if not isinstance(row, dict) or not isinstance(source, (str, type(None))) or not isinstance(shadowed, dict):
        raise UsageError(f"{where} holds `row`, `source` and `shadowed`, but not an object, a text or null, an object")
    return Demo(row, source=source, shadowed=shadowed)
