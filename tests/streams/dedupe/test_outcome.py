"""The outcome is that of comparing every row with every kept row before it, by plain Jaccard similarity."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from corpora import dedupe, verdicts, write_lines

import dustream

ROWS = 300


def shingles(text: str, size: int = 5) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + size]) for at in range(max(1, len(words) - size + 1))}


def similar_texts(seed: int) -> list[str]:
    """Families of texts that grow apart word by word, so that many pairs lie near any threshold."""
    draw = random.Random(seed)
    texts = [" ".join(f"v{draw.randrange(10**6)}" for _ in range(draw.randrange(4, 120))) for _ in range(12)]
    while len(texts) < ROWS:
        words = draw.choice(texts).split()
        for _ in range(draw.randrange(5)):
            words[draw.randrange(len(words))] = f"v{draw.randrange(10**6)}"
        texts.append(" ".join(words))
    draw.shuffle(texts)
    return texts


def expected(texts: list[str], order: list[int], threshold: float, given: int = 0) -> list[tuple[int, float]]:
    """By row: its winner and the similarity to it. The first `given` rows are winners anyway; a copy of one of them is
    dropped for it, even if it matches an earlier one."""
    sets = [shingles(text) for text in texts]
    kept: list[int] = []
    found: dict[int, tuple[int, float]] = {}
    for row in order:
        found[row] = (row, 1.0)
        copies = [other for other in range(given) if texts[other] == texts[row]]
        for winner in (copies or kept) if row >= given else ():
            similarity = len(sets[row] & sets[winner]) / len(sets[row] | sets[winner])
            if similarity >= threshold:
                found[row] = (winner, similarity)
                break
        if found[row][0] == row:
            kept.append(row)
    return [found[row] for row in range(len(texts))]


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_are_dropped_for_the_best_kept_row_that_matches(seed: int, threshold: float) -> None:
    texts = similar_texts(seed)
    found = dustream.dedupe(texts, threshold=threshold)
    wanted = expected(texts, list(range(ROWS)), threshold)
    assert [(each.winner, each.similarity) for each in found.verdicts] == wanted
    assert 20 < sum(winner == row for row, (winner, _) in enumerate(wanted)) < ROWS - 20
    last = dustream.dedupe(texts, threshold=threshold, prefer="last")
    assert [(each.winner, each.similarity) for each in last.verdicts] == expected(
        texts, list(reversed(range(ROWS))), threshold
    )


def test_another_corpus_ranks_before_all_rows_and_stays(tmp_path: Path) -> None:
    texts = similar_texts(3)
    old, new = texts[:100], texts[100:]
    found = dustream.dedupe(new, threshold=0.8, against=old)
    wanted = expected(texts, list(range(ROWS)), 0.8, given=100)[100:]
    assert [(each.winner + (0 if each.against else 100), each.similarity) for each in found.verdicts] == wanted
    sources = [
        write_lines(tmp_path / f"{name}.jsonl", [{"text": each} for each in some])
        for name, some in (("a", old), ("b", new))
    ]
    assert dedupe(sources[1], "--against", sources[0], "--out", tmp_path / "out", "--threshold", "0.8") == 0
    assert [
        (row["winner_row"] + (100 if row["winner_file"] == "b.jsonl" else 0), row["similarity"])
        for row in verdicts(tmp_path / "out")
    ] == wanted
