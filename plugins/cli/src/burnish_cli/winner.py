"""What a run directory holds of its winner: texts and demos, also where the run did not come to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from burnish import BEST_FILE, RESULT_FILE, STORE_FILE, Candidate, Overlay, load
from burnish.errors import StoreError
from burnish.events import State, fold, read_events
from burnish_cli import text


def directory_of(run: Path) -> Path:
    """Give the directory of a run that is named by it or by its `result.json`. Raises `StoreError` where none is."""
    if not run.exists():
        raise StoreError(f"{run} is not there", path=str(run))
    return run if run.is_dir() else run.parent


def winner_to_json(directory: Path) -> dict[str, Any]:
    """Give the winner's texts and overlays. Raises `StoreError`."""
    path = directory / BEST_FILE
    saved = load(path)
    return {"file": str(path), "texts": dict(_texts(path)), "candidate": saved.candidate.to_json()}


def winner_in_words(directory: Path) -> Iterator[str]:
    """Write the winner's texts and demos in full, harmless to a terminal. Raises `StoreError`."""
    path = directory / BEST_FILE
    candidate = load(path).candidate
    yield f"{text.safe(str(path))}{': the winner is the program as it was' if candidate.is_empty else ''}"
    yield from candidate_in_words(candidate, _texts(path))


def candidate_in_words(candidate: Candidate, whole: Mapping[str, str | None] | None = None) -> Iterator[str]:
    """Write a candidate's texts and demos in full; `whole` are the texts that it results in, where they are known."""
    overlays = candidate.overlays
    texts = {name: overlay.instruction for name, overlay in overlays.items()} if whole is None else whole
    for name in dict.fromkeys((*texts, *overlays)):
        yield f"  {text.safe(name)}"
        yield from _indented(texts.get(name) or "(no text of its own)")
        yield from _demos(overlays.get(name, Overlay()))


def _texts(path: Path) -> Mapping[str, str | None]:
    """`load` gives what the winner changes; the file also holds the whole texts that this results in."""
    texts = json.loads(path.read_text(encoding="utf-8")).get("texts", {})
    return {str(name): value if isinstance(value, str) else None for name, value in texts.items()}


def _demos(overlay: Overlay) -> Iterator[str]:
    if overlay.demos is None:
        return
    yield f"    with {text.count(len(overlay.demos), 'demo')}"
    for demo in overlay.demos:
        yield from _indented(json.dumps(dict(demo), ensure_ascii=False))


def _indented(value: str) -> Iterator[str]:
    for line in text.safe(value, lines=True).split("\n"):
        yield f"    {line}".rstrip()


def runs_in(directory: Path) -> list[Path]:
    """Give the run directories inside a directory, those that were changed last at the end."""
    found = {path.parent for name in (RESULT_FILE, STORE_FILE) for path in directory.glob(f"*/{name}")}
    return sorted(found, key=lambda run: (run.stat().st_mtime, run.name))


def unfinished(directory: Path) -> Iterator[str]:
    """Say what a directory without `result.json` holds: a run of `burnish.optimize`, or one that was cut off.

    Raises `StoreError` where it holds no run.
    """
    best, events = directory / BEST_FILE, directory / STORE_FILE
    if not events.exists():
        raise StoreError(
            f"{directory} holds no run: neither {RESULT_FILE} nor {STORE_FILE} is there; `burnish run` makes "
            "runs/<name>",
            path=str(directory),
        )
    state = fold(read_events(events))
    yield f"{text.safe(directory.name)}: no {RESULT_FILE}, as `burnish run` writes it at its end; {STORE_FILE} says:"
    yield from _story(state)
    if best.exists():
        scores = load(best).scores
        means = f"{text.score(scores.get('baseline'))} → {text.score(scores.get('validation'))}"
        yield f"  validation  {means}; {text.command('show', directory, '--prompt')} prints the winner"


def _story(state: State) -> Iterator[str]:
    ended = "it did not come to its end" if state.ended is None else state.ended.stop_reason
    yield f"  ended       {text.safe(ended)}"
    spend = state.spend
    parts = [text.count(spend.metric_calls, "rollout"), text.count(spend.requests, "request")]
    yield f"  spend       {' · '.join([*parts, text.count(spend.tokens, 'token'), text.money(spend.cost)])}"
    for warning in state.warnings:
        yield f"note: {text.safe(warning.message)}"
