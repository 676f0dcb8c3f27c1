"""The plugin: what the entry point `model.llamacpp` names."""

from __future__ import annotations

from collections.abc import Iterable

import burnish
from burnish import abc
from burnish_llamacpp._model import open_model
from burnish_llamacpp._options import LlamaOptions


@burnish.hookimpl
def burnish_models() -> Iterable[burnish.Spec[abc.Model]]:
    """Offer the model `llamacpp`."""
    return [
        burnish.Spec(
            name="llamacpp",
            open=open_model,
            options=LlamaOptions,
            summary="A language model inside the process, through llama.cpp: gemma3-270m or any GGUF file.",
        )
    ]
