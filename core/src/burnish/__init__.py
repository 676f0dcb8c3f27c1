"""burnish tunes the texts of an LM program (instructions, demos, any prompt) against a metric.

Start with `burnish.optimize`; to evaluate candidates yourself, with `burnish.EvalEngine`. Plugins: `burnish.abc` (the
kinds), `burnish.hookspecs` (the hooks), `burnish.events` (what happens in a run), `burnish.testing`
(conformance). Importing this loads no plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from burnish import abc as abc
    from burnish import errors as errors
    from burnish import events as events
    from burnish import hookspecs as hookspecs
    from burnish import testing as testing
    from burnish import toolkit as toolkit
    from burnish import traces as traces
    from burnish._public import *  # noqa: F403 - names are added there
else:
    _MODULES = frozenset({"abc", "errors", "events", "hookspecs", "testing", "toolkit", "traces"})

    def __getattr__(name):
        """Import what was asked for: a module alone, everything else with the first name (PEP 562).

        What only has burnish among its imports (a command's `--help`, a library with an extra) does not pay for it.
        """
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"burnish.{name}")
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'burnish' has no attribute '{name}'")
        public = importlib.import_module("burnish._public")
        names = {key: value for key, value in vars(public).items() if not key.startswith("_")}
        globals().update(names, __all__=sorted(names))
        if name not in globals():
            raise AttributeError(f"module 'burnish' has no attribute '{name}'")
        return globals()[name]

    def __dir__():
        return sorted({*__getattr__("__all__"), *_MODULES, *(name for name in globals() if name.startswith("__"))})
