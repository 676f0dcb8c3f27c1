"""Any OpenAI-compatible endpoint as a burnish model: OpenAI, OpenRouter, vLLM, llama.cpp, Ollama, gateways."""

from burnish_openai._model import OpenAIModel as OpenAIModel
from burnish_openai._model import open_model as open_model
from burnish_openai._options import OpenAIOptions as OpenAIOptions
