"""`best.json`: a winner as a file that is readable and loads anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from burnish._model.candidate import Candidate, Overlay, candidate_from_json
from burnish._model.canonical import JsonMap, fingerprint, hex64
from burnish._model.example import make_examples
from burnish._model.parameter import Parameter
from burnish._runtime.files import json_text, write_atomic
from burnish._runtime.mutation import apply_candidate
from burnish.errors import StoreError, UsageError

FORMAT, VERSION = "burnish.candidate", 1


@attrs.frozen(kw_only=True)
class Saved:
    """A saved candidate; `print(saved)` shows its scores and texts."""

    candidate: Candidate
    scores: Mapping[str, float | None] = attrs.field(factory=dict)
    seen: frozenset[str] | None = None
    """`row_digests` of the rows that it was found on, train and validation; None where the file does not say."""
    path: str = ""

    def __str__(self) -> str:
        scores = [f"{name} {score:.3f}" for name, score in self.scores.items() if isinstance(score, (int, float))]
        return "\n\n".join(filter(None, [", ".join(scores), str(self.candidate)]))

    def apply(self, module: Any) -> Any:
        """Install the candidate in a program and give the program back.

        All or nothing: raises `UnknownParameterError` where the program lacks a predictor, and changes nothing then.
        """
        install = getattr(module, "install", None)
        if callable(install):
            install(self.candidate)
        else:
            apply_candidate(module, self.candidate)
        return module


def row_digests(rows: Iterable[Any]) -> tuple[str, ...]:
    """Give 16 hex digits for each row, by which one is known again: its values count, whatever the fields are called.

    So a row is the same under a configuration that maps its columns to other names. Raises `RowError`.
    """
    return tuple(
        fingerprint([*sorted(fingerprint(value) for value in example.data.values())])[:16]
        for example in make_examples(rows)
    )


def save(
    path: Path,
    candidate: Candidate,
    parameters: Mapping[str, Parameter],
    *,
    seen: Iterable[str] | None = None,
    **scores: float | None,
) -> None:
    """Write `best.json`: the candidate, and the texts it results in, for people to read.

    `seen` are the digests of the rows that it was found on; None leaves them out.
    """
    texts: JsonMap = {}
    for name, parameter in parameters.items():
        overlay = candidate.overlays.get(name, Overlay())
        kept = parameter.default_instruction if overlay.clear_instruction else parameter.instruction
        texts[name] = kept if overlay.instruction is None else overlay.instruction
    form: JsonMap = {
        "format": FORMAT,
        "version": VERSION,
        "hash": hex64(candidate.stable_hash),
        "scores": dict(scores.items()),
        "texts": texts,
        "candidate": candidate.to_json(),
    }
    if seen is not None:
        form["seen"] = " ".join(sorted(set(seen)))  # one text: a line each would bury what people read
    write_atomic(path, json_text(form))


def load(path: str | Path) -> Saved:
    """Read a `best.json`. Raises `StoreError` for a file that is none, damaged, or of a newer version."""
    path = Path(path)
    try:
        form = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is no JSON: {error}", path=str(path)) from None
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise StoreError(f'{path} is no saved candidate: it lacks `"format": "{FORMAT}"`', path=str(path))
    if form.get("version") != VERSION:
        raise StoreError(
            f"{path} has version {form.get('version')!r}; this burnish reads version {VERSION}: upgrade burnish",
            path=str(path),
        )
    try:
        candidate = candidate_from_json(form.get("candidate"))
    except UsageError as error:
        raise StoreError(f"{path}: {error}", path=str(path)) from None
    if form.get("hash") not in (None, hex64(candidate.stable_hash)):
        raise StoreError(f"{path}: the content does not match its hash; the file was changed", path=str(path))
    scores, seen = form.get("scores"), form.get("seen")
    return Saved(
        candidate=candidate,
        scores=scores if isinstance(scores, dict) else {},
        seen=frozenset(seen.split()) if isinstance(seen, str) else None,
        path=str(path),
    )
