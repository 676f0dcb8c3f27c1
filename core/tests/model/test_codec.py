"""Events and records as text and back: exact, tolerant of what is newer, refusing what is damaged."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish._model import events, outcome, trace
from burnish._model.budget import RoleSpend, Spend
from burnish._model.candidate import Candidate, Demo, Overlay
from burnish._model.codec import dumps, loads
from burnish._model.evals import LARGEST, Eval
from burnish._model.lm import DEAREST, LMResponse, Message, Usage
from burnish._model.parameter import PredictState
from burnish.errors import StoreError

EVENT: Any = events.Event
quick = settings(
    derandomize=True, deadline=None, max_examples=12, database=None, suppress_health_check=[HealthCheck.too_slow]
)

# text with half surrogate pairs in it: a reply that was cut may hold them
texts = st.text(st.characters(codec=None), max_size=4)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**64)
scalars: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | numbers | texts
jsons: st.SearchStrategy[Any] = scalars | st.lists(scalars, max_size=2) | st.dictionaries(texts, scalars, max_size=2)
maps = st.dictionaries(texts, jsons, max_size=2)
money = st.decimals(allow_nan=False, allow_infinity=False)
scores = st.floats(-LARGEST, LARGEST)
evals = st.builds(Eval, scores, st.none() | texts, st.dictionaries(texts, scores, max_size=2))
usages = st.builds(Usage, input_tokens=counts, output_tokens=counts, cached_tokens=counts)
role_spends = st.builds(RoleSpend, requests=counts, usage=usages, cost=money, unpriced=counts)
calls = st.dictionaries(texts, role_spends, max_size=2)
spends = st.builds(Spend, metric_calls=counts, tokens=counts, cost=money, seconds=numbers, by_role=calls)
demos = st.builds(Demo, maps, source=st.none() | texts, shadowed=maps)
overlays = st.builds(Overlay, instruction=st.none() | texts, demos=st.none() | st.lists(demos, max_size=2))
candidates = st.builds(Candidate, st.dictionaries(texts, overlays, max_size=2))
messages = st.builds(Message, st.sampled_from(["system", "user", "assistant"]), texts)
turns = st.lists(messages, max_size=2).map(tuple)
span_events = st.builds(trace.Exchange, text=texts, usage=usages) | st.builds(
    trace.ToolRun, id=texts, name=texts, arguments=jsons, error=st.none() | texts
)
kinds = st.sampled_from(["lm", "parse", "tool", "cancelled", "program"])
errors = st.builds(trace.SpanError, kind=kinds, message=texts)
spans = st.builds(
    trace.Span,
    id=counts,
    component=texts,
    seq=counts,
    parent=st.none() | counts,
    inputs=maps,
    output=st.none() | maps,
    suffix=turns,
    events=st.lists(span_events, max_size=2).map(tuple),
    usage=usages,
    error=st.none() | errors,
    eval=st.none() | evals,
    complete=st.booleans(),
)
traces = st.builds(
    trace.Trace,
    meta=st.builds(trace.TraceMeta, trace_id=texts, candidate_hash=st.none() | counts, inputs=maps),
    spans=st.lists(spans, max_size=2).map(tuple),
    prefixes=st.lists(turns, max_size=1).map(tuple),
    models=st.lists(maps, max_size=1).map(tuple),
    outcome=st.none() | st.builds(trace.TraceOutcome, output=jsons, error=st.none() | texts, eval=st.none() | evals),
)
faults = st.none() | st.builds(outcome.Fault, type=texts, message=texts, where=texts, fatal=st.booleans())
records = st.builds(
    outcome.RolloutRecord,
    status=st.sampled_from(list(outcome.RolloutStatus)),
    eval=st.none() | evals,
    fault=faults,
    output=jsons,
    trace=st.none() | traces,
    spans=counts,
    calls=calls,
    models=st.lists(texts, max_size=2).map(tuple),
)
landings = st.builds(
    events.RolloutLanded, key=texts, candidate=counts, example=counts, sample=counts, record=records, step=texts
)
small_events: st.SearchStrategy[Any] = st.one_of(
    st.builds(events.RunStarted, run=texts, facts=maps),
    st.builds(events.CandidateRegistered, index=counts, candidate=candidates),
    st.builds(events.RolloutStarted, key=texts, candidate=counts, example=counts, sample=counts, step=texts),
    st.builds(events.CallStarted, key=texts, role=texts, step=texts),
    st.builds(events.CallLanded, key=texts, role=texts, calls=calls, output=jsons, fault=faults),
    st.builds(events.Charged, spend=spends),
    st.builds(events.Told, needed=counts, cap=texts, step=texts),
    st.builds(events.Warned, kind=texts, message=texts),
    st.builds(events.RunEnded, stop_reason=texts, best=st.none() | candidates),
)


def round_trip(value: Any, kind: Any) -> None:
    text = dumps(value, kind)
    text.encode("utf-8")  # as a file or a database takes it
    read = loads(text, kind)
    assert value == read
    assert type(value) is type(read)
    assert text == dumps(read, kind)


@quick
@given(landings)
def test_landings_come_back_as_they_were(landing: events.RolloutLanded) -> None:
    """A whole rollout, trace and odd text included, is equal after the round trip, and so is its text (R2)."""
    round_trip(landing, EVENT)


@settings(quick, max_examples=40)
@given(small_events)
def test_events_come_back_as_they_were(event: Any) -> None:
    """Every other event too, as the kind that it was."""
    round_trip(event, EVENT)


@settings(quick, max_examples=40)
@given((money | numbers.map(lambda n: Decimal(str(n)))).map(Decimal.copy_abs).filter(lambda cost: cost <= DEAREST))
def test_money_is_exact(amount: Decimal) -> None:
    """A decimal keeps every digit, its zeros at the end included (R11)."""
    read = loads(dumps(LMResponse(text="", cost=amount)), LMResponse).cost
    assert amount.as_tuple() == (read.as_tuple() if read is not None else None)


def test_half_a_surrogate_pair_can_be_stored() -> None:
    """A reply cut inside an emoji is text that no file takes as it is; it comes back as it was all the same."""
    round_trip(events.Warned(kind="\ud83d", message="é\udc00"), EVENT)


def test_an_unknown_price_is_not_zero() -> None:
    """None stays None and 0 stays 0."""
    assert loads(dumps(LMResponse(text="")), LMResponse).cost is None
    assert Decimal(0) == loads(dumps(LMResponse(text="", cost=Decimal(0))), LMResponse).cost


def test_a_demo_keeps_where_it_came_from() -> None:
    """A predictor's state keeps sources and shadowed inputs of its demos."""
    round_trip(PredictState(demos=[Demo({"a": 1}, source="f" * 32, shadowed={"a": 0})]), PredictState)


def test_the_text_holds_what_differs_from_the_default() -> None:
    """Short text for the many small events of a run, each tagged with its kind."""
    assert '{"kind":"k","message":"é","type":"Warned"}' == dumps(events.Warned(kind="k", message="é"), EVENT)


def test_the_version_of_a_trace_is_always_written() -> None:
    """A later reader must not take an old trace for one of its own version; a newer one is refused (E77)."""
    assert '{"version":1}' == dumps(trace.TraceMeta())
    with pytest.raises(StoreError, match="version 2 cannot be read"):
        loads('{"version":2}', trace.TraceMeta)
    with pytest.raises(StoreError, match=r"\$\.meta"):
        loads('{"meta":{"version":2}}', trace.Trace)


def test_what_is_newer_is_passed_over() -> None:
    """Unknown fields and unknown events of a span are skipped, unknown events of a run are not (E70, E77)."""
    read = loads('{"kind":"k","message":"m","severity":3,"type":"Warned"}', EVENT)
    assert events.Warned(kind="k", message="m") == read
    span = loads(
        '{"id":0,"component":"c","seq":0,"colour":"red","events":'
        '[{"type":"Thought","text":"hm"},{"type":"Exchange","text":"hi","tone":1}]}',
        trace.Span,
    )
    assert (trace.Exchange(text="hi"),) == span.events
    with pytest.raises(StoreError, match="stored event cannot be read"):
        loads('{"type":"RolloutTeleported"}', EVENT)


LANDING = dumps(
    events.RolloutLanded(
        key="k",
        candidate=0,
        example=1,
        record=outcome.RolloutRecord(
            status=outcome.RolloutStatus.SUCCEEDED, eval=Eval(0.5), calls={"task": RoleSpend(cost=Decimal("0.1"))}
        ),
    ),
    EVENT,
)


DAMAGED = ["", "null", "5", "[]", "{}", '"Warned"', "{", "\x00", "[" * 100_000, b"\xff\xfe\x00", LANDING[:-1]]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_text_is_a_store_error(text: str | bytes) -> None:
    """Cut, empty, foreign or bottomless text: one kind of error, whatever broke."""
    with pytest.raises(StoreError, match="stored event cannot be read"):
        loads(text, EVENT)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"example":1', '"example":1.5', r"\$\.example"),
        ('"example":1', '"example":"1"', r"\$\.example"),
        ('"example":1', '"example":true', r"\$\.example"),
        ('"key":"k"', '"key":5', r"\$\.key"),
        ('"score":0.5', '"score":"0.5"', r"\$\.record\.eval\.score"),
        ('"score":0.5', '"score":NaN', r"\$\.record\.eval"),
        ('"succeeded"', '"won"', r"\$\.record\.status"),
        ('"cost":"0.1"', '"cost":0.1', r"\$\.record\.calls\['task'\]\.cost"),
        ('"cost":"0.1"', '"cost":"NaN"', r"\$\.record\.calls\['task'\]\.cost"),
        ('"cost":"0.1"', '"cost":"ten"', r"\$\.record\.calls\['task'\]\.cost"),
        ('"key":"k",', "", "required field missing @ "),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(old: str, new: str, where: str) -> None:
    """Nothing is rounded, parsed or guessed into shape: the error says which field it is."""
    assert old in LANDING
    with pytest.raises(StoreError, match=where):
        loads(LANDING.replace(old, new), EVENT)


@settings(quick, max_examples=60)
@given(st.data())
def test_no_damage_raises_anything_else(data: st.DataObject) -> None:
    """Any part of a landing replaced by any JSON, or cut anywhere: a value or a `StoreError`, never another error."""
    form = json.loads(LANDING)
    place = form
    while isinstance(place, dict) and place:
        name = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or data.draw(st.booleans()):
            place[name] = data.draw(jsons)
            break
        place = place[name]
    text = json.dumps(form)
    for damaged in (text, text[: data.draw(st.integers(0, len(text)))]):
        with contextlib.suppress(StoreError):
            loads(damaged, EVENT)


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5000, "1" + "0" * 400, "[" * 400 + "]" * 400])
def test_depth_and_digits_are_damage(value: str) -> None:
    """Whatever stands where a text, a type or a number belongs, an event that cannot be read is a `StoreError`."""
    for text in (value, f'{{"type": {value}}}', f'{{"type": "Warned", "kind": "k", "message": {value}}}'):
        with pytest.raises(StoreError, match="event cannot be read"):
            loads(text, events.Event)  # type: ignore[arg-type]
