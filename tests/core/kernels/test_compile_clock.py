"""Compilation is noticed when it happens, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from dustream.core.kernels.compile import compile_clock, inner, kernel


@inner
def _next(number: int) -> int:
    return number + 1


@kernel
def _twice_the_next(number: int) -> int:
    return _next(number) * 2


def test_only_real_compilations_are_told_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # nothing is compiled yet
    told: list[str] = []
    with compile_clock(lambda: told.append("first")) as clock:
        assert _twice_the_next(1) == 4
    assert told == ["first"] and clock.seconds > 0
    with compile_clock(lambda: told.append("again")) as clock:
        assert _twice_the_next(2) == 6
    assert told == ["first"] and clock.seconds == 0
