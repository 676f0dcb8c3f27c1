"""Functions that take what another callable takes, so that each argument is named in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def signed_like(call: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the parameters of another callable, for type checkers and for `inspect.signature`."""

    def sign(function: Callable[..., R]) -> Callable[P, R]:
        wanted = inspect.signature(function).return_annotation
        function.__dict__["__signature__"] = inspect.signature(call).replace(return_annotation=wanted)
        return function

    return sign


def method_like(call: Callable[P, Any]) -> Callable[[Callable[Concatenate[S, ...], R]], Callable[Concatenate[S, P], R]]:
    """Give a method the parameters of another callable after its own `self`, as `signed_like` does."""

    def sign(method: Callable[Concatenate[S, ...], R]) -> Callable[Concatenate[S, P], R]:
        own = inspect.signature(method)
        itself = next(iter(own.parameters.values()))
        parameters = [itself, *inspect.signature(call).parameters.values()]
        method.__dict__["__signature__"] = own.replace(parameters=parameters)
        return method

    return sign
