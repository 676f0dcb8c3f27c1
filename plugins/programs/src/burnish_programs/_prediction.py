"""What a program returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Prediction(Mapping[str, Any]):
    """The outputs of a program by name: a frozen mapping whose fields are attributes too.

        prediction = await predict(question="...")
        prediction.answer == prediction["answer"]

    A field named like a method of mappings (`items`, `values`, `keys`, `get`) is there by `[...]` only. It equals any
    mapping of the same content.
    """

    __slots__ = ("_fields",)
    _fields: dict[str, Any]

    def __init__(self, fields: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        object.__setattr__(self, "_fields", {**(fields or {}), **more})

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name != "_fields":
            if name in self._fields:
                return self._fields[name]
            have = ", ".join(f"`{field}`" for field in self._fields) or "nothing"
            raise AttributeError(f"the prediction has no field `{name}`; it has {have}", name=name, obj=self)
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a prediction is frozen: `{name}` cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a prediction is frozen: `{name}` cannot be deleted")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __reduce__(self) -> tuple[type[Prediction], tuple[dict[str, Any]]]:
        return type(self), (dict(self._fields),)

    def __repr__(self) -> str:
        return f"Prediction({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"
