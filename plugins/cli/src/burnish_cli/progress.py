"""What `burnish run` shows while it works: a live display on a terminal, few plain lines elsewhere."""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from burnish.events import Event
from burnish_cli import text
from burnish_cli.tally import Figures, Tally

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_EVERY = 10.0
"""Seconds between two plain lines; milestones come at once."""
LIVE_EVERY = 0.25


class Progress(Protocol):
    """Shows a run: `feed` takes its events in order, `tick` is called while nothing happens."""

    def feed(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def say(self, line: str) -> None:
        """Show a line of the command's own."""

    def close(self) -> None:
        """Show nothing more."""


@contextmanager
def open_progress(stream: TextIO, tally: Tally, clock: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """Open the display that suits the stream. After the block nothing more is written, whatever arrives."""
    view: Progress = _Live(stream, tally, clock) if is_terminal(stream) else _Plain(stream, tally, clock)
    try:
        yield view
    finally:
        view.close()


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream can redraw lines."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb" and not os.environ.get("CI")


def summary(figures: Figures) -> str:
    """Write the figures as one line."""
    return " · ".join([text.clock(figures.elapsed), *figures.against_caps(), *_scores(figures), *_speed(figures)])


def _scores(figures: Figures) -> list[str]:
    parts = [f"{figures.failed:,} failed"] if figures.failed else []
    parts.append(f"baseline {text.score(figures.baseline)}")
    if figures.best is not None:
        parts.append(f"best {text.score(figures.best)} (candidate {figures.best_candidate} of {figures.candidates})")
    return parts


def _speed(figures: Figures) -> list[str]:
    parts = [] if figures.rate is None else [f"{figures.rate:.1f}/s"]
    return parts if figures.left is None else [*parts, f"about {text.clock(figures.left)} left"]


class _View(abc.ABC):
    """What both displays do: milestones at once, figures when they are due, nothing once it is closed."""

    def __init__(self, tally: Tally, clock: Callable[[], float], every: float, due: float) -> None:
        self._tally, self._clock, self._every, self._due = tally, clock, every, due
        self._open = True

    def feed(self, event: Event) -> None:
        if not self._open:
            return
        milestone = self._tally.feed(event)
        if milestone is not None:
            self.say(milestone)
        self.tick()

    def say(self, line: str) -> None:
        if self._open:
            self._print(line)

    def tick(self) -> None:
        if self._open and self._clock() >= self._due:
            self._show(self._tally.figures())
            self._due = self._clock() + self._every

    def close(self) -> None:
        self._open = False

    @abc.abstractmethod
    def _print(self, line: str) -> None: ...

    @abc.abstractmethod
    def _show(self, figures: Figures) -> None: ...


class _Plain(_View):
    """A line every few seconds at most, and one for each milestone."""

    def __init__(self, stream: TextIO, tally: Tally, clock: Callable[[], float]) -> None:
        super().__init__(tally, clock, PLAIN_EVERY, clock() + PLAIN_EVERY)
        self._stream = stream

    def _print(self, line: str) -> None:
        text.write_line(self._stream, f"{text.clock(self._tally.figures().elapsed)} · {line}")

    def _show(self, figures: Figures) -> None:
        text.write_line(self._stream, summary(figures))


class _Live(_View):
    """Three lines that are redrawn in place; warnings stand above them. It starts no thread."""

    def __init__(self, stream: TextIO, tally: Tally, clock: Callable[[], float]) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(tally, clock, LIVE_EVERY, clock())
        self._console = Console(file=stream, force_terminal=True, markup=False, highlight=False, emoji=False)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def _show(self, figures: Figures) -> None:
        self._live.update(self._render(figures), refresh=True)

    def _render(self, figures: Figures) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid()
        rows.add_row(ProgressBar(total=1.0, completed=figures.share(), width=min(60, self._console.width)))
        rows.add_row(Text(" · ".join([text.clock(figures.elapsed), *_scores(figures), *_speed(figures)])))
        rows.add_row(Text(" · ".join(figures.against_caps())))
        return rows

    def close(self) -> None:
        if self._open:
            super().close()
            self._live.stop()
