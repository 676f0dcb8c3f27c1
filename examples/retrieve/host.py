"""The host function of the example: finds passages of a small corpus by the words that they share with a question."""

import json
import math
import re
from pathlib import Path

import burnish

# read at import: constants are part of the identity of the function, so a changed corpus makes another program
PASSAGES = tuple(
    f"{passage['title']}: {passage['text']}"
    for passage in map(json.loads, (Path(__file__).parent / "corpus.jsonl").read_text("utf-8").splitlines())
)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


@burnish.exposed
@burnish.inline
def search(question: str) -> str:
    """Give the two passages that share the rarest words with a question."""
    asked = _words(question)
    known = [_words(passage) for passage in PASSAGES]
    weight = {word: math.log(len(known) / (1 + sum(word in words for words in known))) for word in sorted(asked)}
    scores = [sum(weight[word] for word in sorted(asked & words)) for words in known]
    best = sorted(range(len(known)), key=lambda i: (-scores[i], i))[:2]
    return "\n".join(PASSAGES[i] for i in best)
