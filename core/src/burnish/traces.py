"""Traces: their parts, their form as lines of JSON, and those of a recorded run.

    text = burnish.traces.dumps(captured.trace)             # or of several: dumps(list)
    trace = burnish.traces.loads(text)                      # loads_all(text) for any number
    found = burnish.traces.of_run("runs/nightly")           # what `burnish.testing.replay` takes
"""

from burnish._edges.recorded import of_run as of_run
from burnish._model.trace import Exchange as Exchange
from burnish._model.trace import Span as Span
from burnish._model.trace import SpanError as SpanError
from burnish._model.trace import ToolRun as ToolRun
from burnish._model.trace import Trace as Trace
from burnish._model.trace import TraceMeta as TraceMeta
from burnish._model.trace import TraceOutcome as TraceOutcome
from burnish._model.trace_text import dumps as dumps
from burnish._model.trace_text import loads as loads
from burnish._model.trace_text import loads_all as loads_all
