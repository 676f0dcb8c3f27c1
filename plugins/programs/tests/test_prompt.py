"""Prompt files: a text as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

import burnish
from burnish import Candidate, Demo
from burnish._runtime.scope import Injection, injected
from burnish.abc import Layout
from burnish.errors import ParseError, UnknownParameterError, UsageError
from burnish.testing import NearestDemoModel, ScriptedModel
from burnish_programs import ModuleTarget, PromptFile, PromptProgram, models
from burnish_programs._template import Template

TEXT = "Which category?\n\n{{gloss}}\r\n\t{{ not }} {{{gloss}}} {\"a\": {{n}}} {{a.b}} {{}} \n"


async def test_every_other_byte_is_unchanged() -> None:
    """The filled text is the one user turn; braces that are no placeholder, blanks and line ends stay."""
    model = ScriptedModel([" food\n"])
    with capture_logs() as logs:
        prompt = PromptProgram(TEXT, model=model)
    assert ["{{ not }}"] == [entry["text"] for entry in logs]
    assert ("gloss", "n") == prompt.placeholders
    assert {"output": "food"} == await prompt(gloss="a {{n}}", n=3)
    (message,) = model.requests[0].messages
    filled = "Which category?\n\na {{n}}\r\n\t{{ not }} {a {{n}}} {\"a\": 3} {{a.b}} {{}} \n"
    assert ("user", filled) == (message.role, message.content)


@settings(max_examples=40, deadline=None)
@given(st.text("{}ab \n"), st.dictionaries(st.sampled_from(["a", "b", "ab"]), st.text("{}ab"), max_size=3))
def test_filling_is_one_pass(text: str, values: dict[str, str]) -> None:
    """For any text and values: the result is the text's parts and the values in turn, and values are never expanded."""
    template = Template.of(text, ["a", "b", "ab"])
    literals, names = template.parts[::2], template.parts[1::2]
    assert text == literals[0] + "".join(f"{{{{{n}}}}}{t}" for n, t in zip(names, literals[1:], strict=True))
    expected = literals[0] + "".join(values.get(n, "") + t for n, t in zip(names, literals[1:], strict=True))
    assert expected == template.fill(values)


def test_file_is_read_byte_for_byte(tmp_path: Path) -> None:
    """A path is read as UTF-8; a text with a placeholder is the prompt; what cannot be read is named."""
    path = tmp_path / "prompt.md"
    path.write_bytes("Größe {{x}}\r\n".encode())
    assert "Größe {{x}}\r\n" == PromptFile(path).text == PromptFile(str(path)).text
    assert "{{x}}?" == PromptFile("{{x}}?").text
    path.write_bytes(b"\xff {{x}}")
    with pytest.raises(UsageError, match="not UTF-8: byte 0"):
        PromptFile(path)
    with pytest.raises(UsageError, match="No such file"):
        PromptFile(tmp_path / "none.md")
    path.write_text("no placeholder")
    with pytest.raises(UsageError, match="no placeholder"):
        PromptFile(path)


async def test_typed_output() -> None:
    """An output with a type is read by the typed parser, and keeps the whole raw reply in its error."""
    replies = ["Food.", "**category:** animal\nIt barks.", "dunno"]
    prompt = PromptProgram("{{q}}", "category: Literal['animal', 'food']", model=ScriptedModel(replies))
    assert ["food", "animal"] == [(await prompt(q="x")).category for _ in range(2)]
    with pytest.raises(ParseError, match="expected one of: animal, food") as caught:
        await prompt(q="x")
    assert "dunno" == caught.value.raw


async def test_untyped_output_is_the_whole_reply() -> None:
    """Without a type the reply is the value, less the blanks around it and a label in front."""
    replies = [' "quoted"\nand more ', "output: x\noutput: y", "See:\noutput: x"]
    prompt = PromptProgram("{{q}}", model=ScriptedModel(replies))
    assert ['"quoted"\nand more', "x\noutput: y", "See:\noutput: x"] == [(await prompt(q="x")).output for _ in replies]


async def test_candidate_replaces_the_text() -> None:
    """A candidate's instruction is the whole text; a clear puts the file's back."""
    model = ScriptedModel(lambda request: request.messages[-1].content)
    prompt = PromptProgram("old {{q}}", model=model)
    for value, text in [
        (Candidate().with_instruction("prompt", "new {{q}} {{unknown}}"), "new x {{unknown}}"),
        (Candidate().clear_instruction("prompt"), "old x"),
    ]:
        with injected(Injection(candidate=value)):
            assert text == (await prompt(q="x")).output


async def test_a_lost_placeholder_is_refused_before_anything_is_spent() -> None:
    """Whether it is evaluated, installed or written: the one error, which names what is lost; unknown names too."""
    prompt = PromptProgram("{{q}} {{r}}", model=ScriptedModel([]))
    target = ModuleTarget(prompt)
    engine = burnish.EvalEngine([{"q": 1, "r": 2}], lambda *_: 1.0)
    for text in ("only {{q}}", "{{q}} {{ r }}"):
        lost = Candidate().with_instruction("prompt", text)
        message = "the new text of `prompt` has lost `{{r}}`: rows could not reach the model"
        for take in (target.install, lambda c: prompt.set_state(burnish.PredictState().updated(c.overlays["prompt"]))):
            with pytest.raises(UsageError) as caught:
                take(lost)
            assert message == str(caught.value)
        with pytest.raises(UsageError) as caught:
            await engine.evaluate(prompt, engine.register(lost))
        assert message == str(caught.value)
    unknown = Candidate().with_instruction("promt", "{{q}} {{r}}")
    with pytest.raises(UnknownParameterError):
        target.install(unknown)
    with pytest.raises(UnknownParameterError):
        await engine.evaluate(prompt, engine.register(unknown))
    assert (burnish.PredictState(), 0) == (prompt.get_state(), engine.spend.metric_calls)
    target.install(Candidate().with_instruction("prompt", "{{r}}{{q}}").set_demos("prompt", [{"q": 1, "output": 3}]))


def test_parameter_is_a_text_that_takes_demos() -> None:
    """Its kind is `text`, with its placeholders, and demos may be set: bootstrap can improve a prompt file."""
    (parameter,) = burnish.as_target(PromptProgram("{{q}}?", "label")).parameters().values()
    assert ("text", ("q",), True, "{{q}}?") == (
        parameter.kind,
        parameter.placeholders,
        parameter.takes_demos,
        parameter.instruction,
    )
    assert (["q"], ["label"]) == ([f.name for f in parameter.inputs], [f.name for f in parameter.outputs])


async def test_demos_fill_the_same_text() -> None:
    """Demos are the text filled with the demo's row, and its output under its name; the row's own demo is left out."""
    demos = [
        Demo({"q": "a", "label": "x"}, source="row-a"),
        {"q": "b", "label": "y"},
        {"label": "z"},
        Demo({"label": "n"}, shadowed={"q": "c"}),
    ]
    model = ScriptedModel(lambda _: "label: x")
    prompt = PromptProgram("Say {{q}}.\n", "label", demos=demos, model=model)
    with injected(Injection(candidate=Candidate(), source="row-a")):
        assert {"label": "x"} == await prompt(q="a")
    turns = [message.content for message in model.requests[0].messages]
    assert ["Say b.\n", "label: y", "Say c.\n", "label: n", "Say a.\n"] == turns
    assert Layout(outputs=("label",)) == model.requests[0].layout


async def test_text_that_ends_in_its_own_label() -> None:
    """Where the text ends in a label, replies stand bare after it, and the layout asks for no other label."""
    model = ScriptedModel(lambda _: "Category: food")
    prompt = PromptProgram("{{q}}\nCategory:\n", "label", demos=[{"q": "a", "label": "x"}], model=model)
    assert {"label": "food"} == await prompt(q="b")
    assert ["a\nCategory:\n", "x", "b\nCategory:\n"] == [m.content for m in model.requests[0].messages]
    assert Layout() == model.requests[0].layout


async def test_demos_help_a_prompt_file() -> None:
    """A model that copies its nearest demo scores better with demos than without: they reach the prompt."""
    rows = [{"gloss": g, "label": c} for g, c in [("a big dog", "animal"), ("sweet red fruit", "food")] * 2]
    prompt = PromptProgram("{{gloss}}", "label: Literal['animal', 'food', 'person', 'plant']")
    engine = burnish.EvalEngine(rows, lambda example, prediction, trace=None: prediction.label == example["label"])
    demos = [{"gloss": "small dog", "label": "animal"}, {"gloss": "green fruit", "label": "food"}]
    tuned = engine.register(Candidate().set_demos("prompt", demos))
    with models(task=NearestDemoModel()):
        outcome = await engine.evaluate(prompt, tuned)
    assert isinstance(outcome, burnish.Complete)
    assert 1.0 == outcome.evaluation.mean()
