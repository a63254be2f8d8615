"""The pieces into which a component falls when a vertex leaves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def smaller_pieces(seeds: Sequence[Node], neighbours: Callable[[Node], Iterable[Node]]) -> list[list[Node]]:
    """Every connected piece that contains a seed, except the largest.

    The searches from the seeds advance in lockstep, one node each, and stop when all but one are finished: the cost is
    that of the pieces returned times the number of seeds, not that of the largest piece.
    """
    if len(seeds) < 2:
        return []
    search_of = {seed: number for number, seed in enumerate(seeds)}
    frontier = [[seed] for seed in seeds]
    found = [[seed] for seed in seeds]
    parent = list(range(len(seeds)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def meet(one: int, other: int) -> None:
        if len(found[other]) > len(found[one]):
            found[one], found[other] = found[other], found[one]
        found[one] += found[other]
        frontier[one] += frontier[other]
        parent[other] = one
        found[other], frontier[other] = [], []

    def advance(number: int) -> None:
        for node in neighbours(frontier[number].pop()):
            if node not in search_of:
                search_of[node] = number
                found[number].append(node)
                frontier[number].append(node)
            elif (other := root(search_of[node])) != number:
                meet(number, other)

    finished: list[int] = []
    active = list(range(len(seeds)))
    while len(active) > 1:
        still = []
        for number in active:
            if parent[number] != number:
                continue
            if not frontier[number]:
                finished.append(number)
                continue
            advance(number)
            still.append(number)
        active = [number for number in still if parent[number] == number]
    finished.sort(key=lambda number: len(found[number]))
    largest = len(found[finished[-1]]) if finished else 0
    for number in active:  # merged searches may have finished a larger piece than the one left
        while frontier[number] and len(found[number]) <= largest:
            advance(number)
        if len(found[number]) > largest:
            return [found[each] for each in finished]
        finished = sorted([*finished, number], key=lambda each: len(found[each]))
    return [found[number] for number in finished[:-1]]
