"""What a user may set for the embedded model."""

from __future__ import annotations

import math
import os

import attrs

from burnish.errors import ConfigError
from burnish_llamacpp._weights import PACKAGES


@attrs.frozen(kw_only=True)
class LlamaOptions:
    """Options of `model.llamacpp`."""

    model: str = "gemma3-270m"
    """`gemma3-270m` (the extra of that name brings its weights), or the path of a GGUF file."""
    context: int = 4096
    """Tokens that prompt and reply may take together; a longer prompt is a `ContextLengthError`."""
    threads: int = 1
    """Threads that compute. They spin while they wait for each other: more than there are idle cores is far slower."""
    temperature: float = 0.0
    """Sampling temperature; 0 takes the likeliest token. A request's own setting goes before this one."""
    max_tokens: int = 32
    """Bound of one reply in tokens: a base model seldom stops by itself. A request's own setting goes first."""
    multiline: bool = False
    """Let the value of a single output take several lines, also where no demo's does; it then ends at a blank line."""
    seed: int = 0
    """Seed of sampling. Sample k of a request is asked with seed + k, so that samples differ above temperature 0."""
    exact: bool = False
    """Compute every prompt from its first token: bit-exact, whatever was asked before, and several times slower.

    Without it the start that a prompt shares with an earlier one is reused; in a close call an answer then depends on
    what was asked before (0 to 6 of 80 one-word answers of the 270M model).
    """
    prompt_cache_mib: int = 256
    """Memory for the states of earlier prompts, so that candidates in turn do not push each other out; 0: none."""
    timeout: float | None = None
    """Seconds that a call may take, its wait for the CPU included; None: as long as it takes."""

    def __attrs_post_init__(self) -> None:
        known = " or ".join(f'"{name}"' for name in PACKAGES)
        is_path = "/" in self.model or os.sep in self.model or self.model.lower().endswith(".gguf")
        _require(self.model in PACKAGES or is_path, "model", f"{known}, or the path of a .gguf file", self.model)
        _require(self.context >= 64, "context", "at least 64", self.context)
        _require(self.threads >= 1, "threads", "at least 1", self.threads)
        _require(0.0 <= self.temperature < math.inf, "temperature", "a number from 0", self.temperature)
        _require(self.max_tokens >= 1, "max_tokens", "at least 1", self.max_tokens)
        _require(0 <= self.seed < 2**31, "seed", "from 0 to 2147483647", self.seed)
        _require(self.prompt_cache_mib >= 0, "prompt_cache_mib", "0 or more", self.prompt_cache_mib)
        within = self.timeout is None or 0 < self.timeout < math.inf
        _require(within, "timeout", "seconds, above 0", self.timeout)


def _require(holds: bool, key: str, expected: str, value: object) -> None:
    if not holds:
        raise ConfigError(f"model.llamacpp: `{key}` must be {expected}, not {value!r:.80}")
