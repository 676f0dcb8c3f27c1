"""Copying and pickling frozen values that hold read-only mappings, by whoever wants that: burnish does neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

import attrs


class Portable:
    """A frozen attrs class whose instances can be taken apart: as its keywords, with plain dicts for its mappings.

    `MappingProxyType` refuses `copy.deepcopy` and every pickle, and with it so would all that holds such a value.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        fields = attrs.fields(cast("Any", type(self)))
        return _made, (type(self), {field.alias: _plain(getattr(self, field.name)) for field in fields})


def _made(kind: type, values: Mapping[str, Any]) -> Any:
    return kind(**values)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, MappingProxyType) else value
