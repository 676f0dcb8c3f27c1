"""What may be wrong with a program, an overlay or a file of either: found before anything runs or is spent."""

from __future__ import annotations

from burnish.errors import UsageError


class ProgramError(UsageError):
    """A program cannot be: `place` is where, as a file's reader would point at it (`nodes[2].inputs.context`)."""

    def __init__(self, place: str, why: str) -> None:
        self.place, self.why = place, why
        super().__init__(f"{place}: {why}")


class UnknownPathError(UsageError, LookupError):
    """An overlay names a slot that the program does not have."""

    def __init__(self, path: str, known: tuple[str, ...]) -> None:
        self.path, self.known = path, known
        have = f"it has: {', '.join(f'`{k}`' for k in known)}" if known else "it has none at all"
        super().__init__(f"the program has no slot `{path}`; {have}")


class BaseMismatchError(UsageError):
    """An overlay was made for another program (E52)."""

    def __init__(self, expected: str, got: str) -> None:
        self.expected, self.got = expected, got
        super().__init__(
            f"overlay minted against program {got or '(none)'}, run against {expected}; begin one with "
            "`program.overlay()`, or carry this one's values over with `ir.Overlay.from_named(program, ...)`"
        )


class KindMismatchError(UsageError, TypeError):
    """A value is not of its slot's kind."""

    def __init__(self, path: str, expected: str, got: str) -> None:
        self.path, self.expected, self.got = path, expected, got
        super().__init__(f"`{path}` holds a value of kind `{expected}`, not `{got}`")


class DemoFieldError(ProgramError):
    """A demo has a field that its leaf's signature does not have; `path` is where the demo stands."""

    def __init__(self, path: str, field: str, side: str, known: tuple[str, ...]) -> None:
        self.path, self.field, self.side, self.known = path, field, side, known
        super().__init__(path, f"a demo has the {side} `{field}`, the signature has {', '.join(known)}")
