"""From an annotation's text to a type: parsed, never evaluated, and only what the grammar names."""

from __future__ import annotations

import ast
from collections.abc import Callable

from burnish_programs._types import BY_NAME, Choices, DictOf, FieldType, ListOf, Maybe, choice_text

TYPES = "str, int, float, bool, Literal['a', 'b'], list[T], dict[str, T], `T | None`"
DEEPEST = 20
"""Levels of nesting in one annotation."""


class AnnotationError(Exception):
    """An annotation is wrong between two of its characters."""

    def __init__(self, why: str, start: int, end: int) -> None:
        self.why, self.start, self.end = why, start, end
        super().__init__(why)


def parse_annotation(text: str) -> FieldType:
    """Read a type. Raises `AnnotationError` with the place, in characters of `text`."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        at = max(0, min((error.offset or 1) - 1, len(text)))
        raise AnnotationError(f"no type can be read here; types are {TYPES}", at, at + 1) from None
    except (ValueError, RecursionError, MemoryError):
        raise AnnotationError(f"no type can be read here; types are {TYPES}", 0, len(text)) from None
    return _Reader(text).read(tree, 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self._bytes = text.encode()

    def fail(self, node: ast.expr, why: str) -> AnnotationError:
        start, end = (self._column(offset) for offset in (node.col_offset, node.end_col_offset or node.col_offset + 1))
        return AnnotationError(why, start, end)

    def _column(self, offset: int) -> int:
        """Python's parser counts bytes; people count characters."""
        return len(self._bytes[:offset].decode(errors="ignore"))

    def read(self, node: ast.expr, depth: int) -> FieldType:
        if depth > DEEPEST:
            raise self.fail(node, f"types are nested more than {DEEPEST} levels deep")
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(node, depth)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, depth)
        raise self.fail(node, f"this is no type; types are {TYPES}")

    def _name(self, node: ast.Name) -> FieldType:
        if node.id in BY_NAME:
            return BY_NAME[node.id]
        if node.id in ("list", "dict", "Literal", "Optional"):
            example = {"list": "list[str]", "dict": "dict[str, int]", "Literal": "Literal['a', 'b']"}
            raise self.fail(node, f"`{node.id}` needs brackets: `{example.get(node.id, 'Optional[float]')}`")
        raise self.fail(node, f"unknown type `{node.id}`; types are {TYPES}")

    def _union(self, node: ast.BinOp, depth: int) -> FieldType:
        left, right = node.left, node.right
        if _is_none(left) == _is_none(right):
            raise self.fail(node, "a union is `T | None` and nothing else")
        return self._maybe(right if _is_none(left) else left, depth)

    def _maybe(self, node: ast.expr, depth: int) -> FieldType:
        inner = self.read(node, depth + 1)
        if isinstance(inner, Choices) and "null" in inner.values:
            raise self.fail(node, "the choice 'null' could not be told from None")
        return inner if isinstance(inner, Maybe) else Maybe(inner)

    def _subscript(self, node: ast.Subscript, depth: int) -> FieldType:
        readers: dict[str, Callable[[ast.expr, int], FieldType]] = {
            "list": lambda inner, d: ListOf(self.read(inner, d + 1)),
            "dict": self._dict,
            "Optional": self._maybe,
            "Literal": self._literal,
        }
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        if name not in readers:
            raise self.fail(node.value, f"this takes no brackets; types are {TYPES}")
        return readers[name](node.slice, depth)

    def _dict(self, node: ast.expr, depth: int) -> FieldType:
        if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
            raise self.fail(node, "a dict is written `dict[str, T]`")
        key, value = node.elts
        if not isinstance(key, ast.Name) or key.id != "str":
            raise self.fail(key, "the keys of a dict are `str`, as in JSON")
        return DictOf(self.read(value, depth + 1))

    def _literal(self, node: ast.expr, depth: int) -> FieldType:
        values: list[str | int | bool] = []
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            value = self._choice(item)
            if any(choice_text(value) == choice_text(other) for other in values):
                raise self.fail(item, f"the choice {value!r} stands twice in the Literal, or reads like another one")
            values.append(value)
        if not values:
            raise self.fail(node, "a Literal needs at least one choice")
        return Choices(tuple(values))

    def _choice(self, node: ast.expr) -> str | int | bool:
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -1, node.operand
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, int) and (sign == 1 or not isinstance(value, bool)):
            return value if sign == 1 else -value
        if not isinstance(value, str) or sign == -1:
            raise self.fail(node, "a choice of a Literal is a text in quotes, a whole number, True or False")
        if value != value.strip() or not value or "\n" in value:
            raise self.fail(node, f"the choice {value!r} is empty, or has blank ends or a line break")
        return value


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
