"""Compilation is noticed when it happens, and only then."""

from __future__ import annotations

import numba

from dustream.streams.compiling import compile_clock


def test_only_real_compilations_are_told_and_timed() -> None:
    @numba.njit
    def inner(number: int) -> int:
        return number + 1

    @numba.njit
    def outer(number: int) -> int:
        return inner(number) * 2

    told: list[str] = []
    with compile_clock(lambda: told.append("first")) as clock:
        assert outer(1) == 4
    assert told == ["first"] and clock.seconds > 0
    with compile_clock(lambda: told.append("again")) as clock:
        assert outer(2) == 6
    assert told == ["first"] and clock.seconds == 0
