"""The plugin: what the entry point `model.openai` names."""

from __future__ import annotations

from collections.abc import Iterable

import burnish
from burnish import abc
from burnish_openai._model import open_model
from burnish_openai._options import OpenAIOptions


@burnish.hookimpl
def burnish_models() -> Iterable[burnish.Spec[abc.Model]]:
    """Offer the model `openai`."""
    return [
        burnish.Spec(
            name="openai",
            open=open_model,
            options=OpenAIOptions,
            summary="Any OpenAI-compatible endpoint: OpenAI, OpenRouter, vLLM, llama.cpp, Ollama, gateways.",
        )
    ]
