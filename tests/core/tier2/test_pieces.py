"""What falls apart when a vertex goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dustream.core.tier2.pieces import smaller_pieces

NODES = 12
edges = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=20)


def components(neighbours: list[set[int]]) -> list[set[int]]:
    left, found = set(range(NODES)), []
    while left:
        waiting = [left.pop()]
        component = set(waiting)
        while waiting:
            new = neighbours[waiting.pop()] & left
            left -= new
            component |= new
            waiting += new
        found.append(component)
    return found


@given(edges, st.sets(st.integers(0, NODES - 1)))
def test_all_pieces_with_a_seed_but_the_largest(links: list[tuple[int, int]], seeds: set[int]) -> None:
    neighbours: list[set[int]] = [set() for _ in range(NODES)]
    for one, other in links:
        neighbours[one].add(other)
        neighbours[other].add(one)
    pieces = smaller_pieces(sorted(seeds), lambda node: sorted(neighbours[node]))
    touched = [component for component in components(neighbours) if component & seeds]
    sizes = sorted(len(component) for component in touched)
    assert sorted(map(len, pieces)) == sizes[:-1]
    assert all(set(piece) in touched and len(piece) == len(set(piece)) for piece in pieces)


def test_the_largest_piece_is_not_walked() -> None:
    """A leaf falls off a chain of a million: that costs two looks, not a million."""
    looks = []

    def neighbours(node: int) -> list[int]:
        looks.append(node)
        return [] if node < 0 else [each for each in (node - 1, node + 1) if 0 <= each < 1_000_000]

    assert smaller_pieces([-1, 500_000], neighbours) == [[-1]]
    assert len(looks) <= 3
