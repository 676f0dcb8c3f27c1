"""The models for tests: scripts and the nearest demo."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from burnish import abc
from burnish._runtime.codeprint import code_print
from burnish._runtime.model_calls import call_model
from burnish.abc import Layout, LMRequest, LMResponse, Message, ModelLimits, Usage
from burnish.errors import ModelRateLimitError, ModelRequestError, UsageError
from burnish.testing import NearestDemoModel, ScriptedModel, ScriptEndedError


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Time that jumps to the next deadline when all tasks wait; `trio_test` runs the test under it."""
    return trio.testing.MockClock(autojump_threshold=0)


def ask(
    text: str = "hi", *, layout: Layout | None = None, demos: Sequence[tuple[str, str]] = (), system: str = ""
) -> LMRequest:
    turns = [Message("system", system)] if system else []
    for shown, answer in demos:
        turns += [Message("user", shown), Message("assistant", answer)]
    return LMRequest(messages=(*turns, Message("user", text)), layout=layout)


# --- ScriptedModel ----------------------------------------------------------------------------------------------


async def test_a_list_is_served_in_order() -> None:
    """Texts, whole responses and exceptions, each once; calls are counted and requests kept."""
    whole = LMResponse(text="two", finish_reason="length")
    model = ScriptedModel(["one", whole, ModelRequestError("no")])
    assert "one" == (await model.complete(ask("a"))).text
    assert whole is await model.complete(ask("b"))
    with pytest.raises(ModelRequestError, match="no"):
        await model.complete(ask("c"))
    assert (3, 0) == (model.calls, model.left)
    assert ["a", "b", "c"] == [r.messages[-1].content for r in model.requests]


async def test_past_the_end_of_the_script_is_a_clear_error() -> None:
    """The error names the model and both numbers; nothing can help, so it is fatal and never retried."""
    model = ScriptedModel(["only"], name="short")
    await model.complete(ask())
    with pytest.raises(ScriptEndedError, match=r"`short` has a script of 1 replies .* one more \(call 2\)") as caught:
        await call_model(model, ask())
    assert (True, False, 2) == (caught.value.fatal, caught.value.retryable, model.calls)


async def test_a_function_answers_by_the_request() -> None:
    """It may return a text or a response, or raise; it never runs out."""

    def reply(request: LMRequest) -> str | LMResponse:
        text = request.messages[-1].content
        if text == "raise":
            raise ModelRequestError("bad")
        return LMResponse(text="whole") if text == "whole" else text.upper()

    model = ScriptedModel(reply)
    assert ["HI", "whole", "HI"] == [(await model.complete(ask(t))).text for t in ("hi", "whole", "hi")]
    with pytest.raises(ModelRequestError, match="bad"):
        await model.complete(ask("raise"))
    assert 4 == model.calls


async def test_usage_is_counted_in_words_or_as_given() -> None:
    """Without `usage` the words of prompt and reply count as tokens; the answering model is named."""
    response = await ScriptedModel(["two words"], name="m").complete(ask("one two three", system="Be brief."))
    assert LMResponse(text="two words", usage=Usage(input_tokens=5, output_tokens=2), model="m") == response
    given = Usage(input_tokens=100, output_tokens=1)
    assert given == (await ScriptedModel(["x"], usage=given).complete(ask())).usage


async def test_nothing_of_its_state_is_in_the_identity() -> None:
    """Asked or not, with another script or not: identity and fingerprint are those of the name."""
    model = ScriptedModel(["a", "b"])
    identity, code = dict(model.identity), code_print(model).fingerprint
    await model.complete(ask())
    assert identity == model.identity == ScriptedModel(lambda _: "z").identity
    assert code == code_print(model).fingerprint == code_print(ScriptedModel([])).fingerprint
    assert identity != ScriptedModel([], name="other").identity
    assert () == code_print(model).opaque


def test_they_are_models() -> None:
    """Both have what the kind asks for, and share a limiter by name."""
    for model in (ScriptedModel([]), NearestDemoModel()):
        assert isinstance(model, abc.Model)
        assert model.limits.timeout is None
    assert ScriptedModel([]).limits.key == ScriptedModel(["x"]).limits.key != ScriptedModel([], name="b").limits.key
    limits = ModelLimits(key="k", max_in_flight=1)
    assert limits is ScriptedModel([], limits=limits).limits


async def test_what_is_no_script_is_refused() -> None:
    """One text instead of a list, or a reply of another type, is a usage error."""
    with pytest.raises(UsageError, match=r"write \['a text'\]"):
        ScriptedModel("a text")
    for wrong in (5, ValueError, None):
        model = ScriptedModel([wrong])  # type: ignore[list-item]
        with pytest.raises(UsageError, match="a reply is a text or an LMResponse"):
            await model.complete(ask())


async def test_the_delay_is_virtual_under_a_mock_clock(autojump_clock: trio.testing.MockClock) -> None:
    """Calls sleep side by side, and only in trio's time."""
    model = ScriptedModel(lambda request: request.messages[-1].content, delay=5.0)
    began = trio.current_time()
    answers: dict[str, str] = {}

    async def one(text: str) -> None:
        answers[text] = (await model.complete(ask(text))).text

    async with trio.open_nursery() as nursery:
        for i in range(20):
            nursery.start_soon(one, str(i))
    assert 5.0 == trio.current_time() - began
    assert {str(i): str(i) for i in range(20)} == answers


async def test_a_cancelled_call_serves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """Its replies go to later calls in their old order; that it was asked stays counted."""
    model = ScriptedModel(["first", "second", "third"], delay=1.0)

    async def call() -> None:
        await model.complete(ask("cancelled"))

    with trio.move_on_after(0.5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(call)
    assert (2, 3) == (model.calls, model.left)
    assert ["first", "second", "third"] == [(await model.complete(ask())).text for _ in range(3)]


async def test_a_call_is_a_checkpoint_even_without_a_delay() -> None:
    """A loop over it can always be cancelled."""
    with trio.testing.assert_checkpoints():
        await ScriptedModel(["x"]).complete(ask())


async def test_the_cores_retries_see_its_errors(autojump_clock: trio.testing.MockClock) -> None:
    """A retryable exception in the script is retried by the caller and costs a call."""
    model = ScriptedModel([ModelRateLimitError("slow down", retry_after=3.0), "done"])
    assert "done" == (await call_model(model, ask())).text
    assert 2 == model.calls


# --- NearestDemoModel -------------------------------------------------------------------------------------------

LAYOUT = Layout(inputs=("gloss",), outputs=("category",))
LABELS = ["animal", "food", "noun.location", "body part"]
SYSTEM = "Classify the gloss.\nWrite `category`: one of: animal, food, noun.location, body part. Nothing else."


async def answer(request: LMRequest) -> str:
    return (await NearestDemoModel().complete(request)).text


async def test_it_answers_like_the_demo_with_the_most_words_in_common() -> None:
    """The assistant's text of the nearest demo, as it stands there."""
    demos = [
        ("gloss: a small red fruit that is eaten", "category: food"),
        ("gloss: a large striped cat of Asia", "category: animal"),
    ]
    assert "category: animal" == await answer(ask("gloss: a wild cat with large ears", demos=demos, layout=LAYOUT))
    assert "category: food" == await answer(ask("gloss: a sweet fruit", demos=demos, system=SYSTEM, layout=LAYOUT))


async def test_equal_demos_and_stop_words() -> None:
    """The first of equals answers; small words of every sentence decide nothing."""
    demos = [("the owl of the night", "1"), ("an owl at night", "2"), ("the bed of the river", "3")]
    assert "1" == await answer(ask("night owl", demos=demos))
    assert "3" == await answer(ask("the bed of the an at", demos=demos))
    assert "1" == await answer(ask("nothing shared", demos=demos))


async def test_better_demos_score_better() -> None:
    """Demos that share words with the questions answer more of them than demos that do not: what it is for."""
    rows = [(f"kind{k} thing{k} item{i}", f"label{k}") for k in range(3) for i in range(4)]
    near = [(f"kind{k} thing{k}", f"label{k}") for k in range(3)]
    far = [(f"other{k}", f"label{k}") for k in range(3)]
    right = {}
    for name, demos in (("near", near), ("far", far)):
        right[name] = sum([await answer(ask(text, demos=demos)) == label for text, label in rows])
    assert {"near": 12, "far": 4} == right


async def test_without_demos_it_picks_a_label_by_content() -> None:
    """One of the listed words, under the name of the output; the same for the same question, all of them in time."""
    questions = [f"gloss: thing number {i}" for i in range(60)]
    picked = [await answer(ask(q, system=SYSTEM, layout=LAYOUT)) for q in questions]
    assert {f"category: {label}" for label in LABELS} == set(picked)
    assert picked == [await answer(ask(q, system=SYSTEM, layout=LAYOUT)) for q in questions]


@pytest.mark.parametrize(
    "system",
    [
        "Answer with one of: animal, food, noun.location, body part",
        "category (one of: animal, food, noun.location, or body part) — the class",
        "Category must be one of [animal, food, noun.location, body part]; no more.",
        "One of the following: `animal`, 'food', \"noun.location\", body part.\nMore text, with commas.",
        "`topic`: one of: red, green\n`category`: one of: animal, food, noun.location, body part",
    ],
)
async def test_lists_of_labels_are_found_in_many_forms(system: str) -> None:
    """Brackets, quotes, `or`, a full stop at the end: the labels are the same."""
    picked = {await answer(ask(f"question {i}", system=system, layout=LAYOUT)) for i in range(40)}
    assert {f"category: {label}" for label in LABELS} == picked


async def test_labels_with_commas_stand_in_quotes() -> None:
    """As a program writes them where a label holds a comma."""
    system = 'Reply in this form:\ncategory: one of: "red, or pink", "blue"'
    picked = {await answer(ask(f"question {i}", system=system, layout=LAYOUT)) for i in range(20)}
    assert {"category: red, or pink", "category: blue"} == picked


async def test_several_outputs_and_none() -> None:
    """Every output gets a line; without a layout the label stands alone, without labels the word `unknown`."""
    layout = Layout(outputs=("reasoning", "colour"))
    text = await answer(ask(system="`colour`: one of: red", layout=layout))
    assert "reasoning: red\ncolour: red" == text
    assert "red" == await answer(ask(system="one of: red"))
    assert "category: unknown" == await answer(ask(layout=LAYOUT))


async def test_it_counts_calls_and_usage_too() -> None:
    """It is a scripted model in all else."""
    model = NearestDemoModel(name="nd")
    response = await model.complete(ask("two words", demos=[("a b", "c d e")]))
    assert (1, "nd", Usage(input_tokens=7, output_tokens=3)) == (model.calls, response.model, response.usage)
    assert "never" in (NearestDemoModel.__doc__ or "")
