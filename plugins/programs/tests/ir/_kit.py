"""Programs that the tests of the run side share."""

from __future__ import annotations

from typing import Any

import burnish
from burnish import abc
from burnish_programs.ir._nodes import Input, Lit, Node, Out, Port, Predict, Seq
from burnish_programs.ir._program import Program


def port(written: str) -> Port:
    """Read `$.field` or `node.field`."""
    node, _, field = written.partition(".")
    return Input(field) if node == "$" else Out(node, field)


def ask(name: str, sig: str, **given: Any) -> Predict:
    """Make a leaf; keywords that are inputs of the signature say where they come from, the others are its own."""
    inputs = [part.partition(":")[0].strip() for part in sig.partition("->")[0].split(",")]
    ports = {key: port(given.pop(key)) for key in inputs if isinstance(given.get(key), str)}
    return Predict(name=name, sig=sig, bindings=ports, **given)


def program(sig: str, *body: Node, out: dict[str, str], **more: Any) -> Program:
    """Make a program of a sequence."""
    ports = {name: port(written) for name, written in out.items()}
    return Program(sig=sig, root=Seq(body=body, out=ports), **more)


def draft_and_refine(model: str | None = None, **more: Any) -> Program:
    """Two leaves, of which the second reads what the first wrote."""
    return program(
        "question -> answer",
        ask("drafter", "question -> draft", question="$.question", instruction="Draft.", model=model),
        ask("refiner", "question, draft -> answer", question="$.question", draft="drafter.draft", model=model),
        out={"answer": "refiner.answer"},
        **more,
    )


def answerer(model: str | None = None, **more: Any) -> Program:
    """One leaf."""
    leaf = ask("answer", "question -> answer", question="$.question", instruction="Answer.", model=model)
    return program("question -> answer", leaf, out={"answer": "answer.answer"}, **more)


def system(request: abc.LMRequest) -> str:
    """Give the first line of a request's system turn: the instruction."""
    return request.messages[0].content.partition("\n")[0]


def evaluated(outcome: Any) -> Any:
    """Give the evaluations of an outcome that is complete."""
    assert isinstance(outcome, burnish.Complete), outcome
    return outcome.evaluations


__all__ = ["Lit", "answerer", "ask", "draft_and_refine", "evaluated", "port", "program", "system"]
