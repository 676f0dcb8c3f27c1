"""Starting llama.cpp: its settings, and loading a model. All of this blocks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from burnish.abc import Environment
from burnish.errors import ConfigError
from burnish_llamacpp._options import LlamaOptions
from burnish_llamacpp._weights import Weights, find_weights, missing_extra

SILENT = -1
BATCH = 128
"""Prompt tokens computed at a time: a dropped call stops between two batches. 512 is no faster on one thread."""


@attrs.frozen(kw_only=True)
class Listening:
    """How the server answers HTTP clients."""

    port: int = 0
    """0 takes a free one."""
    chat_template: str = ""
    stop: tuple[str, ...] = ()
    """Texts that end a reply where a client names none."""
    open: bool = True
    """Whether anyone on this machine may ask; otherwise HTTP needs a key that nobody knows."""


@attrs.frozen(kw_only=True, eq=False)
class Loaded:
    """A model in memory: dropping the last reference to `server` frees it, which takes a moment."""

    server: Any = attrs.field(repr=False)
    weights: Weights
    options: LlamaOptions


def load(options: LlamaOptions, env: Environment | None, listening: Listening | None = None) -> Loaded:
    """Find the weights and load them: about a second, some more where the weights are put together first.

    The binding holds Python's global lock while it loads (0.7 s for 270M weights), so that every thread of the process
    stands still then, this one or not. Raises `ConfigError` for a model that is not there or that llama.cpp cannot
    read, `PluginBrokenError` where an extra is missing, `StoreError` where the cache directory cannot be used.
    """
    env = env or Environment(variables=os.environ)
    weights = find_weights(options.model, cache=cache_directory(env), base=env.base_dir)
    try:
        import xllamacpp
    except ImportError as error:
        raise missing_extra("gemma3-270m", "xllamacpp", error) from None
    params = _params(xllamacpp, options, weights, listening or Listening(open=False))
    try:
        server = xllamacpp.Server(params)
        # Answers only when the server's loop runs: one that is closed before that is never let go by its destructor.
        server.handle_completions({"prompt": "", "max_tokens": 1, "cache_prompt": False})
    except RuntimeError as error:
        raise ConfigError(
            f"model.llamacpp: `model`: llama.cpp cannot load {weights.path}; is it a GGUF file of a text model, whole, "
            f"and is there memory for a context of {options.context} tokens"
        ) from error
    return Loaded(server=server, weights=weights, options=options)


def cache_directory(env: Environment) -> Path:
    """Give the directory for weights: in the environment's, else the user's cache directory."""
    if env.cache_dir is not None:
        return env.cache_dir / "llamacpp"
    return _user_cache(env.variables) / "burnish" / "llamacpp"


def _user_cache(variables: Mapping[str, str]) -> Path:
    named = Path(variables.get("XDG_CACHE_HOME") or "")
    # A relative value is to be ignored, says the XDG base directory specification.
    return named if named.is_absolute() else Path.home() / ".cache"


def _params(xllamacpp: Any, options: LlamaOptions, weights: Weights, listening: Listening) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = str(weights.path), {weights.name}
    # Fitting to the memory of a graphics card loads the model twice.
    params.verbosity, params.warmup, params.fit_params = SILENT, False, False
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_parallel = options.context, BATCH, BATCH, 1
    for cpu in (params.cpuparams, params.cpuparams_batch):
        # `poll` is how eagerly a thread spins while it waits: with one thread there is nobody to wait for.
        cpu.n_threads, cpu.poll = options.threads, 0
    # Without it a sliding-window model such as Gemma forgets the start of the prompt, and no prefix can be reused.
    params.swa_full = True
    params.cache_prompt = not options.exact
    params.cache_ram_mib = 0 if options.exact else options.prompt_cache_mib
    params.n_predict = options.max_tokens
    params.sampling.temp, params.sampling.seed = options.temperature, options.seed
    _listen(params, listening)
    return params


def _listen(params: Any, listening: Listening) -> None:
    # The server listens on loopback whether anyone wants it or not.
    params.hostnames, params.port, params.n_threads_http = ["127.0.0.1"], listening.port, 2
    params.api_keys = [] if listening.open else [secrets.token_hex(32)]
    params.ui, params.endpoint_slots = False, False
    params.antiprompt = list(listening.stop)
    if listening.chat_template:
        params.chat_template = listening.chat_template
        params.prefill_assistant = False
