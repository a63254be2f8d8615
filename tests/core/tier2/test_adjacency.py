"""Edges in arrays behave like sets of neighbours, whatever is linked and removed in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dustream.core.tier2.adjacency import VERTICES_MIN, Adjacency

NUMBERS = st.integers(0, 12) | st.just(3 * VERTICES_MIN)
STEPS = st.lists(st.tuples(st.sampled_from(["link", "link", "remove"]), NUMBERS, NUMBERS), max_size=80)


@given(STEPS)
def test_neighbours_are_those_linked_and_not_removed(steps: list[tuple[str, int, int]]) -> None:
    adjacency, model = Adjacency(), dict[int, set[int]]()
    for step, one, other in steps:
        if step == "remove":
            gone = model.pop(one, set())
            assert adjacency.remove(one) == sorted(gone)
            for each in gone:
                model[each].remove(one)
        elif one != other and other not in model.get(one, set()):
            adjacency.link(one, other)
            model.setdefault(one, set()).add(other)
            model.setdefault(other, set()).add(one)
    for number in {*model, 0, 10_000}:
        assert adjacency.neighbours(number) == sorted(model.get(number, set()))


def test_places_of_edges_that_went_are_used_again() -> None:
    adjacency = Adjacency()
    for _ in range(100):
        for other in range(1, 10):
            adjacency.link(0, other)
        assert adjacency.remove(0) == list(range(1, 10))
    assert len(adjacency._other) == 2 * 9
