"""A language model inside the process, through llama.cpp: no key, no server, no network.

`open_model` gives a `burnish.abc.Model`; `serve` the same weights as an OpenAI-compatible endpoint on loopback.
"""

from burnish_llamacpp._layout import chat_template as chat_template
from burnish_llamacpp._model import LlamaModel as LlamaModel
from burnish_llamacpp._model import open_model as open_model
from burnish_llamacpp._options import LlamaOptions as LlamaOptions
from burnish_llamacpp._serve import Endpoint as Endpoint
from burnish_llamacpp._serve import serve as serve
