"""burnish tunes the texts of an LM program against a metric."""

from burnish.abc import Environment as Environment
from burnish.abc import Spec as Spec
from burnish.hookspecs import hookimpl as hookimpl
