"""Whose code it is: the user's own, which is looked into, or that of a library, which has a name and a version."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pathlib
import sys
import types
from collections.abc import Mapping
from typing import Any

import attrs

from burnish._runtime.codeparts import Import

PYTHON = f"python {sys.version_info.major}.{sys.version_info.minor}"

_CHECKOUT = str(pathlib.Path(__file__).parents[4]) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep
_HEAP_TYPE = 1 << 9
"""The flag of a class that was made at run time, as all that are written in Python are."""
_COMPILED = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)


@attrs.frozen
class Owner:
    """Whose code is looked into: the user's own, and the package of the thing that is printed."""

    packages: frozenset[str]

    @classmethod
    def of(cls, thing: Any) -> Owner:
        """Take the packages of a function, class, object, or of the code in a tuple."""
        if isinstance(thing, functools.partial):
            return cls.of(thing.func)
        if isinstance(thing, tuple):
            code = (types.FunctionType, types.MethodType, type)
            return cls(frozenset().union(*(cls.of(item).packages for item in thing if isinstance(item, code))))
        named = thing if isinstance(thing, (types.FunctionType, types.MethodType, type)) else type(thing)
        return cls(frozenset({_package(named.__module__ or "")}) - {"builtins"})

    def owns(self, thing: Any) -> bool:
        """Say whether a function, class or module is to be looked into, by the module that it was written in."""
        return self.library(source_module(thing), _file_of(thing)) is None

    def follows(self, function: types.FunctionType) -> bool:
        """Say whether the global names in a function's code are looked up."""
        return _package(source_module(function)) != "burnish" and self.owns(function)

    def library(self, module: str, file: str | None = None) -> str | None:
        """Name the distribution of a module with its version; None for code that is looked into.

        Where a module lies decides, as a user's file may be named like one of the standard library. What lies between
        installed packages without being known as one has no version to go by, and is looked into.
        """
        package = _package(module)
        if package in self.packages:
            return None
        file = file or getattr(sys.modules.get(module), "__file__", None)
        beside = package.startswith("burnish_") and str(file).startswith(_CHECKOUT)
        if package == "burnish" or beside:  # where burnish itself is developed, there may be no version
            return distribution(package) or package
        if not isinstance(file, str):
            return PYTHON if package in sys.stdlib_module_names else None
        if "site-packages" in file or "dist-packages" in file:
            return distribution(package)
        return PYTHON if file.startswith(_STDLIB) else None

    def named(self, thing: Any) -> dict[str, Any] | None:
        """Write a library's class or function by its name; None for what is looked into.

        A name counts only where the thing is found under it: what a library's decorator or factory has made at run time
        is no part of the library, whatever it says of itself.
        """
        module, static = str(thing.__module__), isinstance(thing, type) and not thing.__flags__ & _HEAP_TYPE
        library = self.library(module)
        if library is None or not (static or _found(module, thing.__qualname__) is thing):
            return None
        return {"name": f"{module}.{thing.__qualname__}", "in": library}


def source_module(thing: Any) -> str:
    """Name the module that a thing was written in; a decorated function says it is from that of what it wraps."""
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, types.FunctionType):
        return str(thing.__globals__.get("__name__", "__main__"))
    return str(thing.__module__)


def is_compiled(module: str) -> bool:
    """Say whether a module is written in another language than Python: nobody can look into it."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(file, str) and file.endswith((".so", ".pyd", ".dylib"))


def is_python(kind: type) -> bool:
    """Say whether a class is written in Python, so that all its objects hold of it is in attributes."""
    space = vars(kind)
    compiled = any(isinstance(value, _COMPILED) and value.__objclass__ is kind for value in space.values())
    if compiled or not kind.__flags__ & _HEAP_TYPE or isinstance(space.get("__new__"), types.BuiltinFunctionType):
        return False
    if "__dict__" in space or "__slots__" in space or kind.__basicsize__ == getattr(kind.__base__, "__basicsize__", 0):
        return True
    return any(isinstance(value, types.FunctionType) for value in space.values())


def is_python_class(kind: type) -> bool:
    """Say whether all that an object holds is in its attributes: its class and bases are written in Python."""
    return kind is not object and all(is_python(base) for base in kind.__mro__[:-1])


@functools.lru_cache(maxsize=4096)
def distribution(package: str) -> str | None:
    """Name the distributions that a package came with, each with its version; None where there is none to go by."""
    try:
        return _version(package)
    except Exception:  # most have the name of their package; damaged metadata may raise anything
        names = sorted(set(_distributions().get(package, ())))
    try:
        versions = [_version(name) for name in names]
    except Exception:
        return None
    return ", ".join(filter(None, versions)) if versions and all(versions) else None


def _version(name: str) -> str | None:
    """Name a distribution and its version; None for what was built from a directory, which may change without one."""
    from importlib import metadata  # 15 ms that `import burnish` need not pay

    found = metadata.distribution(name)
    source = json.loads(found.read_text("direct_url.json") or "{}")
    commit = source.get("vcs_info", {}).get("commit_id", "")
    return None if "dir_info" in source else f"{name} {found.version} {commit}".rstrip()


@functools.lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    from importlib import metadata

    try:
        return {package: list(names) for package, names in metadata.packages_distributions().items()}
    except Exception:
        return {}


def absolute_name(one: Import, space: Mapping[str, Any]) -> str:
    """Name the module that an import statement means, in the globals of the code that it stands in."""
    name = str(space.get("__name__", ""))
    package = space.get("__package__") or (name if "__path__" in space else name.rpartition(".")[0])
    above = ".".join(package.split(".")[: len(package.split(".")) + 1 - one.level])
    return one.name if not one.level else f"{above}.{one.name}".rstrip(".")


def file_to_import(module: str) -> str | None:
    """Say where a module would come from, without importing it: "" where it is not there, None where nobody knows."""
    package = _package(module)
    if package in sys.modules:
        return getattr(sys.modules[package], "__file__", None)
    try:
        spec = importlib.util.find_spec(package)
    except Exception:  # someone's own finder may raise anything
        return None
    return "" if spec is None else spec.origin


def _found(module: str, qualname: str) -> Any:
    """Look a name up without running code: a module may make its attributes when they are first asked for."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(name)
        found = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    return found


def _file_of(thing: Any) -> str | None:
    """Name the file of a function's code; None where its module has to say."""
    if isinstance(thing, types.ModuleType):
        return getattr(thing, "__file__", None)
    if not isinstance(thing, types.FunctionType) or thing.__code__.co_filename.startswith("<"):
        return None
    return thing.__code__.co_filename


def _package(module: str) -> str:
    return module.partition(".")[0]
