"""`Module`: a program of several predictors, found as its attributes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import burnish
from burnish.errors import UsageError
from burnish_programs._binding import binding, is_bound, names_of
from burnish_programs._leaf import Leaf

M = TypeVar("M", bound="Module")

MOST_ITEMS = 1000
"""A longer list or mapping in an attribute is data: nobody looks for predictors in it."""


def _no_forward(self: Module, /, **inputs: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__} has no `forward`: define it, async or sync")


class Module:
    """A program: predictors as attributes, and `forward`, which is async or sync.

        class QA(Module):
            def __init__(self):
                self.draft = Predict("question -> draft")
                self.answer = Predict("question, draft -> answer: float")

            async def forward(self, *, question):
                return await self.answer(question=question, draft=(await self.draft(question=question)).draft)

    Predictors are found in attributes, in nested modules (`sub.answer`) and in lists, tuples and mappings of either
    (`steps.0`); one that is found twice has its first name. A module may declare them instead: override `predictors()`.
    A sync `forward` runs in a worker thread and uses the predictors' and modules' `sync(...)`.
    """

    forward: Callable[..., Any] = _no_forward
    """The program's work: to be defined, async or sync, with the inputs as its parameters."""

    def __repr__(self) -> str:
        try:
            lines = [f"  {name} = {leaf!r}" for name, leaf in self.predictors().items()]
        except Exception:  # a module that is half made, or names two predictors alike, can be shown all the same
            return f"<{type(self).__name__}>"
        return "\n".join([f"<{type(self).__name__}", *lines]) + ">"

    def predictors(self) -> dict[str, Leaf]:
        """Give the predictors by name. Raises `UsageError` where two have one name."""
        return found_predictors(self)

    async def __call__(self, /, **inputs: Any) -> Any:
        """Run the program; gives what `forward` returns and raises what it raises.

        A sync `forward` runs in a worker thread with this task's context; a cancellation ends its calls of predictors,
        and leaves it behind where it has not returned after five seconds.
        """
        if is_bound(self):
            return await self._forward(inputs)
        with binding(names_of(self, self.predictors(), modules_in(self))):
            return await self._forward(inputs)

    async def _forward(self, inputs: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self.forward):
            return await self.forward(**inputs)
        result = await burnish.in_thread(lambda: self.forward(**inputs))
        return await result if inspect.isawaitable(result) else result

    def sync(self, /, **inputs: Any) -> Any:
        """Run the program from sync code, where `Predict.sync` may be used."""
        if inspect.iscoroutinefunction(self.forward):
            return burnish.run_from_sync(lambda: self(**inputs))
        if is_bound(self):
            return self.forward(**inputs)
        with binding(names_of(self, self.predictors(), modules_in(self))):
            return self.forward(**inputs)

    def copy(self: M) -> M:
        """Give a structural copy: modules, predictors and what holds them are new, everything else is shared.

        What is one object in here is one object in the copy; predictors keep their models, and have their own state.
        """
        return _Copier().copy(self)  # type: ignore[no-any-return]

    def __burnish_target__(self) -> Any:
        """Give the program as a `burnish.abc.Target`."""
        from burnish_programs._target import ModuleTarget

        return ModuleTarget(self)


# --- looking into modules --------------------------------------------------------------------------------------


def attributes(module: Any) -> Iterator[tuple[str, Any]]:
    """Give an object's attributes in order of definition, and those of its classes that hold predictors."""
    names = dict.fromkeys(getattr(module, "__dict__", ()))
    for kind in type(module).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    own = {name: getattr(module, name) for name in names if not name.startswith("__") and hasattr(module, name)}
    for kind in type(module).__mro__:
        for name, value in kind.__dict__.items():
            if name not in own and not name.startswith("__") and holds_predictors(value):
                own[name] = value
    yield from own.items()


def items_of(value: Any) -> list[tuple[str, Any]] | None:
    """Give the items of a container that may hold predictors; None for anything else."""
    if isinstance(value, (list, tuple)) and len(value) <= MOST_ITEMS:
        names = getattr(value, "_fields", range(len(value)))
        return [(str(name), item) for name, item in zip(names, value, strict=True)]
    if isinstance(value, dict) and len(value) <= MOST_ITEMS:
        return [(str(key), item) for key, item in value.items()]
    return None


def holds_predictors(value: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a value is a module or a predictor, or a container with one in it."""
    if isinstance(value, (Leaf, Module)):
        return True
    items = items_of(value)
    if not items or id(value) in seen:
        return False
    return any(holds_predictors(item, seen | {id(value)}) for _, item in items)


def found_predictors(module: Module, *, declared: bool = True) -> dict[str, Leaf]:
    """Find the predictors by walking attributes; with `declared`, nested modules say themselves which they have."""
    found: dict[str, Leaf] = {}
    seen = {id(module)}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Leaf):
            if id(value) not in seen:
                seen.add(id(value))
                if path in found:
                    raise UsageError(f"two predictors are both called `{path}`: rename the key or the attribute")
                found[path] = value
            return
        children: Any = items_of(value)
        if isinstance(value, Module) and id(value) not in seen:
            own = declared and type(value).predictors is not Module.predictors
            children = value.predictors().items() if own else attributes(value)
        if children is not None and id(value) not in seen:
            seen.add(id(value))
            for name, child in children:
                walk(child, f"{path}.{name}" if path else name)

    for name, value in attributes(module):
        walk(value, name)
    return found


def modules_in(value: Any, seen: dict[int, Any] | None = None) -> dict[int, Any]:
    """Give a module and all modules inside it, by id, in order of discovery."""
    found: dict[int, Any] = {}
    visited = {} if seen is None else seen
    if id(value) in visited:
        return found
    children = attributes(value) if isinstance(value, Module) else items_of(value)
    if isinstance(value, Module):
        found[id(value)] = value
    if children is not None:
        visited[id(value)] = value
        for _, child in children:
            found.update(modules_in(child, visited))
    return found


class _Copier:
    """Copies structure: modules, predictors and their containers; shared objects stay shared among the copies."""

    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        if id(value) in self._copies:
            return self._copies[id(value)]
        if isinstance(value, Leaf):
            return self._keep(value, value.copy())
        if isinstance(value, Module):
            return self._module(value)
        items = items_of(value)
        if not items or not any(holds_predictors(item) for _, item in items):
            return value
        return self._container(value)

    def _keep(self, value: Any, twin: Any) -> Any:
        self._copies[id(value)] = twin
        return twin

    def _module(self, module: Module) -> Module:
        twin = self._keep(module, object.__new__(type(module)))
        for name, value in attributes(module):
            object.__setattr__(twin, name, self.copy(value))
        return twin  # type: ignore[no-any-return]

    def _container(self, value: Any) -> Any:
        if isinstance(value, tuple):
            items = [self.copy(item) for item in value]
            return self._keep(value, value._make(items) if hasattr(value, "_make") else type(value)(items))
        twin = self._keep(value, copy.copy(value))
        for key in range(len(value)) if isinstance(value, list) else list(value):
            twin[key] = self.copy(value[key])
        return twin
