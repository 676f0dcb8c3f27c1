"""The same rows through the embedded model, and through an OpenAI-compatible client against llama.cpp's HTTP server.

    uv run --group test python benchmarks/same_answers.py [ROWS]

Both in the bit-exact mode (`cache_prompt=false`), with the labels named and three demos. Prints how many of the answers
are equal, for the chat and for the completions endpoint; ends non-zero unless all are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

import burnish
from burnish.abc import Layout
from burnish_llamacpp import LlamaOptions, open_model, serve
from burnish_openai import OpenAIOptions
from burnish_openai import open_model as open_endpoint
from burnish_programs import Predict

DATA = Path(__file__).resolve().parents[1] / "examples" / "wordnet" / "six.jsonl"
INSTRUCTION = "Say which category the gloss belongs to: animal, artifact, food, location, person or plant."


async def answers(model: Any, rows: list[Mapping[str, Any]], demos: list[dict[str, Any]]) -> list[str]:
    """Ask one row after the other."""
    program = Predict("gloss -> category", INSTRUCTION, demos=demos)
    with burnish.models(task=model):
        return [(await program(gloss=row["gloss"])).category for row in rows]


async def main(count: int) -> int:
    """Ask three ways and compare."""
    rows = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
    demos = [{"gloss": row["gloss"], "category": row["category"]} for row in rows[count : count + 3]]
    rows, options = rows[:count], LlamaOptions(exact=True)
    async with open_model(options) as model:
        inside = await answers(model, rows, demos)
    status = 0
    async with serve(options, layout=Layout(inputs=("gloss",), outputs=("category",))) as endpoint:
        for api in ("chat", "completions"):
            asked = OpenAIOptions(
                model=endpoint.model,
                base_url=endpoint.base_url,
                api_key_env=None,
                api=api,
                temperature=0.0,
                max_tokens=options.max_tokens,
                extra={"cache_prompt": False},
            )
            async with open_endpoint(asked) as model:
                outside = await answers(model, rows, demos)
            equal = sum(a == b for a, b in zip(inside, outside, strict=True))
            print(f"{api}: {equal} of {len(rows)} answers equal those of the embedded model")
            status |= equal != len(rows)
    return status


if __name__ == "__main__":
    sys.exit(trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 40))
