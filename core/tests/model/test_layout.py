"""How turns become one text: pure."""

from __future__ import annotations

import pytest

from burnish.abc import BasePrompt, Layout, LMRequest, Message, lay_out

LAYOUT = Layout(inputs=("gloss", "hint"), outputs=("category", "why"))
SYSTEM = Message("system", "Name the category.\n\ncategory: text")
DEMO = (Message("user", "gloss: a round red fruit"), Message("assistant", "category: food\nwhy: eaten"))
ASK = Message("user", "gloss: a small dog")
STOP = ("\n\n", "\ngloss:", "\nhint:", "\ncategory:")


def test_program_turns_are_blocks() -> None:
    """A blank line between examples, each reply under its input; the text ends with the first output label."""
    text = (
        "Name the category.\n\ncategory: text\n\ngloss: a round red fruit\ncategory: food\nwhy: eaten\n\n"
        "gloss: a small dog\ncategory:"
    )
    expected = BasePrompt(text=text, prefill="category:", stop=STOP)
    assert expected == lay_out(LMRequest(messages=(SYSTEM, *DEMO, ASK), layout=LAYOUT))


def test_prompt_never_ends_in_space() -> None:
    """Blank ends of turns are dropped and blank turns vanish: a space at the end would spoil the next token."""
    spaced = (Message("system", " \n"), Message("user", "gloss: a small dog \n\n"))
    assert "gloss: a small dog\ncategory:" == lay_out(LMRequest(messages=spaced, layout=LAYOUT)).text


def test_stops_of_a_request_come_on_top() -> None:
    """The layout's stops stay when a request names its own."""
    assert (*STOP, "END") == lay_out(LMRequest(messages=(ASK,), layout=LAYOUT, stop=("END",))).stop


def test_a_single_value_ends_with_its_line() -> None:
    """With one output the reply is one line, unless a demo's reply has more or the user says so."""
    layout = Layout(inputs=("gloss",), outputs=("category",))
    short = (DEMO[0], Message("assistant", "category: food"), ASK)
    single = LMRequest(messages=short, layout=layout)
    many = ("\n\n", "\ngloss:", "\ncategory:")
    assert [("\n",), many] == [lay_out(single, multiline=multiline).stop for multiline in (False, True)]
    assert many == lay_out(LMRequest(messages=(*DEMO, ASK), layout=layout)).stop


@pytest.mark.parametrize("layout", [None, Layout(inputs=("gloss",))])
def test_without_labels_turns_are_a_dialogue(layout: Layout | None) -> None:
    """Without output labels the turns are named, and nothing is put in front of the reply."""
    messages = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Hello"), ASK)
    text = "Be brief.\n\nUser: Hi\n\nAssistant: Hello\n\nUser: gloss: a small dog\n\nAssistant:"
    expected = BasePrompt(text=text, prefill="", stop=("\nUser:",))
    assert expected == lay_out(LMRequest(messages=messages, layout=layout))


def test_last_assistant_turn_is_the_start_of_the_reply() -> None:
    """The reply goes on from a last assistant turn, which is given back in front of it."""
    messages = (ASK, Message("assistant", "category: animal\nwhy:"))
    expected = BasePrompt(
        text="gloss: a small dog\ncategory: animal\nwhy:", prefill="category: animal\nwhy:", stop=STOP
    )
    assert expected == lay_out(LMRequest(messages=messages, layout=LAYOUT))
    plain = lay_out(LMRequest(messages=(Message("user", "Hi"), Message("assistant", "Hello"))))
    assert ("User: Hi\n\nAssistant: Hello", "Hello") == (plain.text, plain.prefill)


def test_nothing_to_say_is_still_a_prompt() -> None:
    """Without a turn the prompt is its opening alone."""
    assert ("category:", "Assistant:") == tuple(
        lay_out(LMRequest(messages=(), layout=layout)).text for layout in (LAYOUT, None)
    )


def test_a_prompt_that_ends_in_its_own_label_is_followed_by_its_reply() -> None:
    """After one blank, blocks apart by a blank line, nothing added at the end; one-line demos make one-line replies."""
    turns = (Message("user", "gloss: a fruit\ncategory:"), Message("assistant", "food"))
    asked = (*turns, Message("user", "gloss: a dog\ncategory:"))
    expected = BasePrompt(text="gloss: a fruit\ncategory: food\n\ngloss: a dog\ncategory:", stop=("\n",))
    assert expected == lay_out(LMRequest(messages=asked, layout=Layout()))
    longer = (turns[0], Message("assistant", "food\nor drink"), asked[-1])
    assert ("\n\n",) == lay_out(LMRequest(messages=longer, layout=Layout())).stop
