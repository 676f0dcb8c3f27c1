"""`sink.jsonl`: lines that other tools can read, each event once."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish import abc
from burnish._builtin.jsonl import JsonlOptions, JsonlSink, open_jsonl
from burnish._model.events import Event, RolloutLanded, RunStarted
from burnish._model.outcome import RolloutRecord, RolloutStatus
from burnish.errors import StoreError
from burnish.testing._conformance_sink import delivery, sample_events
from burnish.traces import Span, Trace, TraceMeta, TraceOutcome, loads_all


def numbers(path: Path, run: str = "a") -> list[int]:
    """Give the numbers of a run's lines."""
    return [line["n"] for line in map(json.loads, path.read_bytes().splitlines()) if line["run"] == run]


async def test_line_is_number_run_and_event(tmp_path: Path) -> None:
    """A line is JSON in UTF-8 with number, run and tagged event, whatever a text holds; no event breaks a line."""
    events = sample_events()
    async with open_jsonl(JsonlOptions(path="out/e.jsonl"), abc.Environment(base_dir=tmp_path)) as sink:
        await sink.deliver(abc.Delivery(run='r "1"\n', events=tuple(enumerate(events))))
    lines = (tmp_path / "out/e.jsonl").read_text(encoding="utf-8").split("\n")
    assert len(events) + 1 == len(lines)
    first = json.loads(lines[0])
    assert ({"n", "run", "event"}, 0, 'r "1"\n') == (set(first), first["n"], first["run"])
    assert {"type": "RunStarted", "run": "a", "facts": {"seed": 0}} == first["event"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 700), runs=st.lists(st.sampled_from("ab"), min_size=1, max_size=8))
@pytest.mark.slow
def test_torn_tail_is_completed_by_delivering_again(cut: int, runs: list[str], tmp_path: Path) -> None:
    """Cut off anywhere, as a killed process leaves it, the file is whole once the events come again, each once."""
    path = tmp_path / "events.jsonl"
    path.unlink(missing_ok=True)

    async def deliver() -> None:
        sink = JsonlSink(path)
        for i, run in enumerate(runs):
            await sink.deliver(delivery(range(2 * i, 2 * i + 2), run, text="é" * 20))

    trio.run(deliver)
    whole = path.read_bytes()
    lost = max(0, len(whole) - cut)
    os.truncate(path, lost)
    trio.run(deliver)
    assert sorted(whole.splitlines()) == sorted(path.read_bytes().splitlines())
    for run in "ab":
        assert sorted(numbers(path, run)) == numbers(path, run)


@pytest.mark.parametrize(
    "content", [b"notes of mine", b"notes\n", b'{"n":1,"run":"a","event":{}}\nmy own words', b"\x00\xff"]
)
async def test_file_of_someone_else_is_left_alone(content: bytes, tmp_path: Path) -> None:
    """A file that holds something else is refused by name, and not a byte of it changes."""
    path = trio.Path(tmp_path / "events.jsonl")
    await path.write_bytes(content)
    async with open_jsonl(None, abc.Environment(base_dir=tmp_path)) as sink:
        with pytest.raises(StoreError, match="not an event file") as caught:
            await sink.deliver(delivery([1]))
    assert (content, str(path)) == (await path.read_bytes(), caught.value.path)


async def test_place_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    """Where no file can be made the error names it and the way out, and says that nothing is lost."""
    (tmp_path / "file").touch()
    async with open_jsonl(JsonlOptions(path="file/e.jsonl"), abc.Environment(base_dir=tmp_path)) as sink:
        with pytest.raises(StoreError, match="delivered again") as caught:
            await sink.deliver(delivery([1]))
    assert str(tmp_path / "file/e.jsonl") == caught.value.path


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Limit files of this process to 2,000 bytes: a full disk, as a program meets it.

    No longer than the block: what pytest itself writes may be a file too.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """A batch that does not fit raises and leaves nothing of itself; what fits later is delivered, once."""
    async with open_jsonl(None, abc.Environment(base_dir=tmp_path)) as sink:
        await sink.deliver(delivery(range(1, 4)))
        with small_files(), pytest.raises(StoreError, match="make room"):
            await sink.deliver(delivery(range(4, 100)))
        assert [1, 2, 3] == numbers(tmp_path / "events.jsonl")
        await sink.deliver(delivery(range(3, 6)))
        assert [1, 2, 3, 4, 5] == numbers(tmp_path / "events.jsonl")


async def test_two_sinks_on_one_file_keep_lines_whole(tmp_path: Path) -> None:
    """Runs of several processes may share a file: each finds its own cursor, and no line is mixed with another."""
    path = tmp_path / "events.jsonl"
    sinks = {run: JsonlSink(path) for run in ("a", "b")}

    async def deliver(run: str) -> None:
        for n in range(10):
            await sinks[run].deliver(delivery([2 * n, 2 * n + 1], run, text="x" * 5000))

    async with trio.open_nursery() as nursery:
        for run in sinks:
            nursery.start_soon(deliver, run)
    assert [list(range(20))] * 2 == [numbers(path, run) for run in sinks]


async def test_cursor_of_another_run_far_back_is_found(tmp_path: Path) -> None:
    """A run that goes on after megabytes of another run's lines repeats nothing."""
    path = tmp_path / "events.jsonl"
    await JsonlSink(path).deliver(delivery([1, 2], "a"))
    await JsonlSink(path).deliver(delivery(range(40), "b", text="x" * 20_000))
    await JsonlSink(path).deliver(delivery([1, 2, 3], "a"))
    assert [1, 2, 3] == numbers(path, "a")


# --- traces ----------------------------------------------------------------------------------------------------


def landed(number: int, outcome: TraceOutcome | None = None, spans: int = 2) -> RolloutLanded:
    """Make the landing of a rollout with a trace, or without one where it has no spans."""
    made = tuple(Span(id=i, component="a", seq=i, inputs={"q": f"é {number}"}) for i in range(spans))
    trace = Trace(meta=TraceMeta(trace_id=str(number)), spans=made, outcome=outcome) if spans else None
    record = RolloutRecord(status=RolloutStatus.SUCCEEDED, trace=trace)
    return RolloutLanded(key=str(number), candidate=0, example=number, record=record)


def batches(run: str) -> list[abc.Delivery]:
    """Make three batches: traces among other events, of which one has no outcome."""
    traced = [landed(1, TraceOutcome(output=1)), landed(2, spans=0), landed(3), landed(4, TraceOutcome(error="no"))]
    numbered: tuple[tuple[int, Event], ...] = tuple(enumerate([RunStarted(run=run), *traced]))
    return [abc.Delivery(run=run, events=numbered[i : i + 2]) for i in (0, 2, 4)]


async def test_traces_alone_in_their_own_form(tmp_path: Path) -> None:
    """E77: with form = "traces" the file holds the traces of all rollouts, each once, as `loads_all` reads them."""
    options = JsonlOptions(path="t.jsonl", form="traces")
    for _ in range(2):  # the second time all of it comes again, to a sink that has to read where it was
        async with open_jsonl(options, abc.Environment(base_dir=tmp_path)) as sink:
            for run in ("a", "b"):
                for batch in batches(run):
                    await sink.deliver(batch)
    found = loads_all((tmp_path / "t.jsonl").read_text("utf-8"))
    outcomes = {1: TraceOutcome(output=1), 3: TraceOutcome(), 4: TraceOutcome(error="no")}
    expected = [landed(number, outcome) for number, outcome in outcomes.items()]
    assert 2 * [event.record.trace for event in expected] == found


async def test_a_torn_trace_comes_again_whole(tmp_path: Path) -> None:
    """Cut off anywhere, a file of traces is the same once the events come again."""
    path = tmp_path / "t.jsonl"

    async def deliver() -> bytes:
        sink = JsonlSink(path, "traces")
        for batch in batches("a"):
            await sink.deliver(batch)
        return path.read_bytes()

    whole = await deliver()
    for length in range(0, len(whole), 7):
        os.truncate(path, length)
        assert whole == await deliver()


@pytest.mark.parametrize("content", [b'{"n":1,"run":"a","event":{}}\n', b"mine", b'{"h":{}}\nmine'])
async def test_a_file_of_another_form_is_left_alone(content: bytes, tmp_path: Path) -> None:
    """Traces are not written behind events or anything else."""
    path = trio.Path(tmp_path / "t.jsonl")
    await path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a file of traces"):
        await JsonlSink(tmp_path / "t.jsonl", "traces").deliver(batches("a")[0])
    assert content == await path.read_bytes()


@pytest.mark.parametrize("form", ["events", "traces"])
async def test_values_of_variables_are_hidden(form: Any, tmp_path: Path) -> None:
    """E75: where a text repeats a key that the options name, the file does not show it; a missing one is none."""
    secret = "sk-0123456789"
    span = Span(id=0, component="a", seq=0, raw_output=f"Bearer {secret}", suffix=(abc.Message("user", secret * 2),))
    event = landed(1)
    event = attrs.evolve(event, record=attrs.evolve(event.record, trace=Trace(spans=(span,))))
    env = abc.Environment(base_dir=tmp_path, variables={"KEY": secret, "EMPTY": ""})
    async with open_jsonl(JsonlOptions(path="t", form=form, hide_env=("KEY", "EMPTY", "MISSING")), env) as sink:
        await sink.deliver(abc.Delivery(run="a", events=((0, event),)))
        assert secret not in repr(sink)
    text = (tmp_path / "t").read_text("utf-8")
    assert secret not in text
    assert 3 == text.count("[redacted]")
