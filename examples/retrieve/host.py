"""The host function of the example: finds a passage of a small corpus by the words that it shares with a question."""

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
    """Give the passage that shares most with a question; a rare word counts more than a common one."""
    asked = _words(question)
    known = [_words(passage) for passage in PASSAGES]
    weight = {word: math.log(len(known) / (1 + sum(word in words for words in known))) for word in sorted(asked)}
    scores = [sum(weight[word] for word in sorted(asked & words)) for words in known]
    return PASSAGES[scores.index(max(scores))]
