"""How functions are compiled that only compiled code calls.

Python needs a door to a compiled function, and a copy on disk so as not to wait for it again. A function that is a part
of others needs neither, and both take longer than compiling it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

_NO_DOOR: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inner(function: Function) -> Function:
    """A function that only compiled code calls."""
    return cast("Function", njit(**_NO_DOOR)(function))


def inlined(function: Function) -> Function:
    """As `inner`; its code stands where it is called, for what runs at every tag."""
    return cast("Function", njit(forceinline=True, **_NO_DOOR)(function))


def merged(function: Function) -> Function:
    """As `inner`, for what is called at one place: its code is written there before anything is compiled, which saves
    compiling it for itself with all that it calls."""
    return cast("Function", njit(inline="always")(function))
