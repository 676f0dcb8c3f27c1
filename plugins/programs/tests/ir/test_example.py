"""The example in `examples/retrieve`: a program as a file, with a hole that looks into a small corpus."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import burnish
from burnish.testing import ScriptedModel
from burnish_programs import ir

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "retrieve"


def host() -> ModuleType:
    """Import the example's host module, as running it does with its directory on the path."""
    spec = importlib.util.spec_from_file_location("host", EXAMPLE / "host.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_what_the_builder_makes() -> None:
    """Three nodes, wired by name."""
    seine = {"question": "On which river does Paris stand?"}
    spider = {"question": "How many legs does a spider have?"}
    drafts = [{"draft": "Paris stands on the Seine."}, {"draft": "A spider has eight legs."}]
    built = ir.program(
        "question -> answer",
        ir.Hole("search", "question -> context", impl="host:search"),
        ir.Predict(
            "draft",
            "question, context -> draft",
            instruction="Answer the question from the context.",
            demos=[
                ir.DemoRow({**seine, "context": "The Seine: The Seine flows through Paris."}, drafts[0]),
                ir.DemoRow({**spider, "context": "Spiders: A spider has eight legs and spins silk."}, drafts[1]),
            ],
        ),
        ir.Retry(
            ir.Predict(
                "refine",
                "question, draft -> answer",
                instruction="Write the answer alone: one word, name or number.",
                demos=[
                    ir.DemoRow({**seine, **drafts[0]}, {"answer": "Seine"}),
                    ir.DemoRow({**spider, **drafts[1]}, {"answer": "eight"}),
                ],
            )
        ),
        name="retrieve",
    )
    assert built == ir.load(EXAMPLE / "program.toml")
    assert built.program_hash == ir.load(EXAMPLE / "program.toml").program_hash


def test_every_answer_can_be_found() -> None:
    """The passage that a question finds holds its answer; questions are told apart."""
    search = host().search
    rows = [json.loads(line) for line in (EXAMPLE / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [] == [row for row in rows if row["answer"].casefold() not in search(row["question"]).casefold()]
    assert 72 == len(rows) == len({row["id"] for row in rows}) == len({row["question"] for row in rows})


def test_the_corpus_is_part_of_the_functions_identity() -> None:
    """A changed passage is other code, so no cached answer of the old corpus serves the new one."""
    one, other = host(), host()
    assert burnish.code_print(one.search).fingerprint == burnish.code_print(other.search).fingerprint
    other.PASSAGES = other.PASSAGES[1:]  # type: ignore[attr-defined]
    assert burnish.code_print(one.search).fingerprint != burnish.code_print(other.search).fingerprint


async def test_it_runs() -> None:
    """The second prompt holds what the hole found, the third what the second gave (scenario 63)."""
    model = ScriptedModel(["draft: It was in 1953.", "answer: 1953"])
    interpreter = ir.Interpreter(ir.load(EXAMPLE / "program.toml"), ir.RuntimeEnv().bind_hole("search", host().search))
    with burnish.models(task=model):
        output = await interpreter.run({"question": "In which year was Mount Everest first climbed?"})
    assert {"answer": "1953"} == dict(output)
    prompts = [request.messages[-1].content for request in model.requests]
    assert "Edmund Hillary" in prompts[0]
    assert "It was in 1953." in prompts[1]
