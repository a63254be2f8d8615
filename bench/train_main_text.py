"""Learns the model of main text from pages of which it is known: python bench/train_main_text.py [--write]

The model has two parts. Each word of the names of containers (class, id, role) has weights, learned by logistic
regression beside some features of the blocks. Trees are learned over all features; the sums of these weights are three
of them. On each page the trees learn from weights of other sites, so that they do not trust words too much.

Without --write it cross-validates: pages of a site are judged by a model that saw none of that site. It does so
--rounds times, each with other folds and another seed; means and deviations go to bench/results/main_text.json.
Differences of about the deviation are noise. With --write it learns from all pages and writes core/text/main_model.py.
Real pages come from the folder DUSTREAM_DATA; what the other extractors say of them is kept in --cache.
"""

from __future__ import annotations

import argparse
import math
import pickle
import statistics
import sys
import textwrap
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import scipy.sparse
from main_text_kinds import GENERATED, generated
from main_text_labels import KEPT, UNKNOWN, Described, chosen_of, described, rows_of
from main_text_peers import PEERS
from main_text_truth import (
    ARTICLES,
    BODIES,
    MANY_SITES,
    SEGMENTS,
    Truth,
    articles,
    documentation,
    many_sites,
    segment_score,
    segments,
    shingle_score,
)
from pages import data_folder
from result_files import Table as ResultTable
from result_files import write_result
from scipy.optimize import minimize

from dustream.core.text.scan_blocks import CONTAINER, PARENT
from dustream.core.text.scan_features import FEATURES
from dustream.core.text.scan_features import LEVELS as FEATURE_LEVELS
from dustream.core.text.scan_model import ANSWERS_PER_TREE, LEVELS, QUESTIONS_PER_TREE
from dustream.core.text.scan_tables import FIRST_WEIGHT

MODEL_FILE = Path(__file__).resolve().parents[1] / "core" / "text" / "main_model.py"
SEED = 17
FOLDS = 5
SCALE = 64  # a logit is so many steps of a score
TREES = 120
GENERATED_PAGES = 900
JUDGED_SITES = ("A_networkx_doc", "A_kafka_site", "A_dolphinscheduler_zh_en")

# What a label weighs: a block that people chose; one that both other extractors keep or leave. The blocks of a page of
# the others weigh so much together.
CHOSEN_WEIGHT, AGREED_WEIGHT = 8.0, 0.1
PAGE_WEIGHT = {ARTICLES: 320.0, MANY_SITES: 10.0, GENERATED: 25.0, **dict.fromkeys(BODIES, 30.0)}
LONG_WEIGHT_MAX = 4.0  # a long block weighs up to so much more than one of a word or two
BACKGROUND_ONE_IN = 4  # of the blocks that both other extractors leave on pages of many sites, each weighing more

# A word counts if it is on so many sites. Its two weights are in eighths of a logit; small ones are none.
WORD_SITES_MIN = 6
WORD_STEPS, WORD_WEIGHT_MIN, WORD_WEIGHT_MAX = 8, 0.2, 5.0
WORD_FOLDS = 3
NEAR_LEVELS = 3  # a block's own container and two around it are near
# Logistic regression: how much all blocks weigh, as a share of their number (those of a page say much the same), and
# what it costs to give a word, or a level of a feature, a weight.
BLOCKS_SHARE, WORD_PENALTY, LEVEL_PENALTY = 0.15, 3.0, 1.0
BESIDE_WORDS = (
    "length", "link_share", "kind", "last_char", "down", "c1_of_page_prose", "c1_links", "c2_links",
    "c2_of_page_prose", "w3_links", "w3_prose", "in_table", "path_boilerplate", "path_main",
)  # fmt: skip

PARAMETERS = {
    "objective": "binary", "boost_from_average": False, "max_depth": LEVELS, "num_leaves": ANSWERS_PER_TREE,
    "learning_rate": 0.18, "extra_trees": True, "min_data_in_leaf": 60, "lambda_l2": 10.0, "feature_fraction": 0.4,
    "bagging_fraction": 0.5, "bagging_freq": 1, "max_bin": 63, "num_threads": 1, "deterministic": True,
    "force_col_wise": True, "verbose": -1, "seed": SEED,
}  # fmt: skip


class Page(NamedTuple):
    """A page with the label and the weight of each of its blocks."""

    truth: Truth
    blocks: Described
    labels: np.ndarray
    weights: np.ndarray


class Table(NamedTuple):
    """Trees as core/text/scan_model.py reads them; questions name features by number."""

    questions: np.ndarray
    answers: np.ndarray

    def scores(self, rows: np.ndarray) -> np.ndarray:
        total = np.zeros(len(rows), dtype=np.int64)
        for questions, answers in zip(self.questions, self.answers, strict=True):
            node = np.zeros(len(rows), dtype=np.int64)
            for _ in range(LEVELS):
                is_above = rows[np.arange(len(rows)), questions[node, 0]] > questions[node, 1]
                node = 2 * node + 1 + is_above
            total += answers[node - QUESTIONS_PER_TREE]
        return total.astype(np.int16)


Weights = dict[str, tuple[int, int]]


class Learned(NamedTuple):
    """What the model is made of."""

    weights: Weights
    table: Table

    def scores(self, page: Page) -> np.ndarray:
        return self.table.scores(page_rows(page, self.weights))


# --- pages


def truths(folder: Path) -> Iterator[Truth]:
    yield from segments(folder)
    yield from articles(folder)
    yield from many_sites(folder)
    for name in BODIES:
        yield from documentation(folder, name)
    yield from generated(GENERATED_PAGES, SEED)


def peer_texts(truth: Truth, cache: dict[str, list[str]]) -> list[str]:
    """What the other extractors find, where people say little or nothing about a page."""
    if truth.collection not in (SEGMENTS, MANY_SITES):
        return []
    key = f"{zlib.crc32(truth.page):08x}-{len(truth.page)}"
    if key not in cache:
        cache[key] = [peer(truth.page) for peer in PEERS.values()]
    return cache[key]


def pages_of(found: Iterable[tuple[Truth, Described]]) -> list[Page]:
    chance = np.random.default_rng(SEED)
    return [labelled(truth, blocks, chance) for truth, blocks in found if len(blocks.texts)]


def labelled(truth: Truth, blocks: Described, chance: np.random.Generator) -> Page:
    labels = np.where(blocks.labels == UNKNOWN, blocks.agreed, blocks.labels)
    sizes = np.array([len(text) for text in blocks.texts])
    weights = np.minimum(LONG_WEIGHT_MAX, np.log1p(sizes) / math.log(20)) * (labels != UNKNOWN)
    if truth.collection == SEGMENTS:
        weights *= np.where(blocks.labels == UNKNOWN, AGREED_WEIGHT, CHOSEN_WEIGHT)
    else:
        weights *= PAGE_WEIGHT[truth.collection] / max(weights.sum(), 1.0)
    if truth.collection == MANY_SITES:
        is_dropped = chance.random(len(labels)) >= 1 / BACKGROUND_ONE_IN
        weights = np.where(labels == KEPT, weights, np.where(is_dropped, 0.0, weights * BACKGROUND_ONE_IN))
    return Page(truth, blocks, labels, weights)


# --- learning


class Words(NamedTuple):
    """What the weights of words are learned from: for each block that counts, how often each known word is near it, how
    often further up, and its features beside words."""

    known: list[str]
    pages: dict[int, tuple[int, int]]
    rows: Any
    labels: np.ndarray
    weights: np.ndarray


def words_of(pages: list[Page]) -> Words:
    sites = defaultdict[str, set[str]](set)
    for page in pages:
        for word in {word for words in page.blocks.words for word in words}:
            sites[word].add(GENERATED if page.truth.collection == GENERATED else page.truth.site)
    known = sorted(word for word, where in sites.items() if len(where) >= WORD_SITES_MIN and len(word) > 1)
    number, places, end = {word: i for i, word in enumerate(known)}, dict[int, tuple[int, int]](), 0
    for page in pages:
        start, end = end, end + int((page.weights > 0).sum())
        places[id(page)] = start, end
    counts = scipy.sparse.vstack([word_counts(page, number) for page in pages])
    beside = np.concatenate([page_rows(page, {})[page.weights > 0] for page in pages])
    labels, weights = (
        np.concatenate([getattr(page, name)[page.weights > 0] for page in pages]) for name in ("labels", "weights")
    )
    return Words(known, places, scipy.sparse.hstack([counts, levels_of(beside)]).tocsr(), labels, weights)


def levels_of(beside: np.ndarray) -> Any:
    """A column for each level of each feature that is looked at beside words."""
    found = beside[:, [FEATURES.index(name) for name in BESIDE_WORDS]].astype(np.int32)
    columns = (found + FEATURE_LEVELS * np.arange(found.shape[1])).reshape(-1)
    ones, starts = np.ones(columns.size, dtype=np.float32), np.arange(0, columns.size + 1, found.shape[1])
    return scipy.sparse.csr_matrix((ones, columns, starts), (len(found), FEATURE_LEVELS * found.shape[1]))


def word_counts(page: Page, number: dict[str, int]) -> Any:
    """For each block that counts, how often each word is near it, and behind these columns, further up."""
    own = [Counter(number[word] for word in words if word in number) for words in page.blocks.words]
    near, far = list[Counter[int]](), list[Counter[int]]()
    parents = page.blocks.found.containers[:, PARENT].tolist()
    for i in range(len(own)):
        above, around = i, Counter[int]()
        for _ in range(NEAR_LEVELS):
            around.update(own[above] if above >= 0 else {})
            above = parents[above] if above >= 0 else -1
        near.append(around)
        further = far[parents[i]] if parents[i] >= 0 else Counter[int]()
        far.append(further + own[above] if above >= 0 and own[above] else further)
    columns, values, starts = list[int](), list[int](), [0]
    for container in page.blocks.found.blocks[page.weights > 0, CONTAINER].tolist():
        columns += [*near[container], *(len(number) + word for word in far[container])]
        values += [*near[container].values(), *far[container].values()]
        starts.append(len(columns))
    return scipy.sparse.csr_matrix(
        (np.array(values, dtype=np.float32), columns, starts), shape=(len(starts) - 1, 2 * len(number))
    )


def word_weights(words: Words, pages: list[Page]) -> Weights:
    """How much each word speaks for main text, near a block and further up, beside what other features say."""
    used = np.concatenate([np.arange(*words.pages[id(page)]) for page in pages])
    count = len(words.known)
    penalties = np.repeat([WORD_PENALTY, LEVEL_PENALTY], [2 * count, words.rows.shape[1] - 2 * count])
    found = logistic(words.rows[used], words.labels[used], words.weights[used], penalties)
    steps = np.where(np.abs(found) < WORD_WEIGHT_MIN, 0.0, np.clip(found, -WORD_WEIGHT_MAX, WORD_WEIGHT_MAX))
    whole = np.round(WORD_STEPS * steps).astype(int).tolist()
    pairs = zip(words.known, whole[:count], whole[count : 2 * count], strict=True)
    return {word: (near, far) for word, near, far in pairs if near or far}


def learned(pages: list[Page], words: Words, seed: int = SEED) -> Learned:
    rows: dict[int, np.ndarray] = {}
    for fold in range(WORD_FOLDS):
        weights = word_weights(words, [page for page in pages if word_fold_of(page) != fold])
        rows |= {id(page): page_rows(page, weights) for page in pages if word_fold_of(page) == fold}
    labels, page_weights = (np.concatenate([getattr(page, name) for page in pages]) for name in ("labels", "weights"))
    used = page_weights > 0
    data = lightgbm.Dataset(
        np.concatenate([rows[id(page)] for page in pages])[used],
        labels[used],
        weight=page_weights[used] / page_weights[used].mean(),
    )
    return Learned(word_weights(words, pages), table_of(lightgbm.train(PARAMETERS | {"seed": seed}, data, TREES)))


def word_fold_of(page: Page) -> int:
    return zlib.crc32(f"words of {page.truth.site}".encode()) % WORD_FOLDS


def page_rows(page: Page, weights: Weights) -> np.ndarray:
    sums = [
        sum(near * FIRST_WEIGHT + far for near, far in (weights.get(word, (0, 0)) for word in words))
        for words in page.blocks.words
    ]
    return rows_of(page.blocks.found, np.array(sums, dtype=np.int32))


def logistic(rows: Any, labels: np.ndarray, weights: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """The weights of the columns by logistic regression."""
    weights, columns = weights / weights.mean() * BLOCKS_SHARE, rows.T.tocsr()

    def loss(found: np.ndarray) -> tuple[float, np.ndarray]:
        logits = rows @ found
        slope = columns @ (weights * (1 / (1 + np.exp(-logits)) - labels))
        error = weights @ (np.logaddexp(0, logits) - labels * logits)
        return float(error + 0.5 * penalties @ found**2), slope + penalties * found

    return minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 40}).x


def table_of(booster: Any) -> Table:
    questions = np.zeros((TREES, QUESTIONS_PER_TREE, 2), dtype=np.uint8)
    answers = np.zeros((TREES, ANSWERS_PER_TREE), dtype=np.int8)
    for tree, found in enumerate(booster.dump_model()["tree_info"]):
        write_node(found["tree_structure"], 0, questions[tree], answers[tree])
    return Table(questions, answers)


def write_node(node: dict[str, Any], place: int, questions: np.ndarray, answers: np.ndarray) -> None:
    """A node of a tree and those below it. Where a leaf stands higher up, all answers below it are the same."""
    is_leaf = "leaf_value" in node
    if place >= QUESTIONS_PER_TREE:
        answers[place - QUESTIONS_PER_TREE] = max(-127, min(127, round(node["leaf_value"] * SCALE)))
        return
    if not is_leaf:
        questions[place] = node["split_feature"], math.floor(node["threshold"])
    for side, name in enumerate(("left_child", "right_child"), 1):
        write_node(node if is_leaf else node[name], 2 * place + side, questions, answers)


# --- judging


def fold_of(page: Page, seed: int) -> int:
    """Documentation sites that are judged are in different folds; the others are learned from in every fold."""
    if page.truth.collection in BODIES:
        return JUDGED_SITES.index(page.truth.collection) if page.truth.collection in JUDGED_SITES else FOLDS
    return zlib.crc32(f"{seed}:{page.truth.site}".encode()) % FOLDS


def judged(pages: list[Page], words: Words, seed: int) -> Iterator[tuple[Page, np.ndarray]]:
    """Each page that is judged, with the scores of its blocks by a model that has not seen its site."""
    for fold in range(FOLDS):
        model = learned([page for page in pages if fold_of(page, seed) != fold], words, seed)
        for page in pages:
            if page.truth.collection in (SEGMENTS, ARTICLES, *JUDGED_SITES) and fold_of(page, seed) == fold:
                yield page, model.scores(page)


def text_of(blocks: Described, chosen: np.ndarray) -> str:
    return "\n".join(text for text, is_chosen in zip(blocks.texts, chosen, strict=True) if is_chosen)


def body_score(page: Page, chosen: np.ndarray) -> tuple[float, float]:
    """(share of the body's bytes that are chosen, share of the chosen bytes from outside the body)"""
    sizes, is_body = np.array([len(text.encode()) for text in page.blocks.texts]), page.labels == KEPT
    right = sizes[is_body & chosen].sum()
    return right / max(1, sizes[is_body].sum()), 1 - right / max(1, sizes[chosen].sum())


def scores_of(found: list[tuple[Page, np.ndarray]]) -> dict[str, Any]:
    by_collection: dict[str, list[tuple[Page, np.ndarray]]] = {}
    for page, scores in found:
        by_collection.setdefault(page.truth.collection, []).append((page, chosen_of(page.blocks, scores)))
    said: dict[str, Any] = {}
    for name, judged_pages in by_collection.items():
        texts = [text_of(page.blocks, chosen) for page, chosen in judged_pages]
        if name == SEGMENTS:
            said[name] = segment_score(texts, [page.truth for page, _ in judged_pages])._asdict()
        elif name == ARTICLES:
            said[name] = shingle_score(texts, [page.truth.body for page, _ in judged_pages])._asdict()
        else:
            bodies = [body_score(page, chosen) for page, chosen in judged_pages if (page.labels == KEPT).any()]
            recall, outside = (sum(values) / len(bodies) for values in zip(*bodies, strict=True))
            said[name] = {"body_recall": recall, "from_outside": outside}
    return said


# --- writing


def written(model: Learned, pages: list[Page]) -> str:
    counts = {name: sum(page.truth.collection == name for page in pages) for name in (*PAGE_WEIGHT, SEGMENTS)}
    provenance = (
        f"Learned with lightgbm {lightgbm.__version__}, seed {SEED}, {TREES} trees of {LEVELS} levels, from pages: "
        + ", ".join(f"{count} of {name}" for name, count in counts.items())
        + ". Each question is a feature and a threshold, in the order root, its two children, their four; each answer "
        "a number of 1 / SCALE logits, those below a question that is answered with no first. Each word has two "
        "weights, in eighths of a logit: on the containers next to a block, and on those further up."
    )
    items = (f"{word} {near} {far}" for word, (near, far) in sorted(model.weights.items()))
    words = textwrap.fill("  ".join(items), 118, break_long_words=False, break_on_hyphens=False)
    names = textwrap.fill(" ".join(f'"{name}",' for name in FEATURES), 112)
    return f'''"""The trees of the model of main text. Written by bench/train_main_text.py: learned, not edited.

{textwrap.fill(provenance, 118)}
"""

SCALE = {SCALE}
FEATURE_NAMES = (
{textwrap.indent(names, "    ")}
)  # fmt: skip
QUESTIONS = """
{lines(model.table.questions)}
"""
ANSWERS = """
{lines(model.table.answers)}
"""
WORDS = """
{words}
"""
'''


def lines(values: np.ndarray) -> str:
    """A line of hexadecimal digits for each tree."""
    return "\n".join(row.tobytes().hex() for row in values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="learn from all pages and write the model")
    parser.add_argument("--rounds", type=int, default=2, help="how often to cross-validate (default 2)")
    parser.add_argument("--cache", type=Path, help="a file that keeps what other extractors say")
    args = parser.parse_args()
    folder = data_folder()
    if folder is None:
        raise SystemExit("no real pages to learn from: set DUSTREAM_DATA to their folder")
    cache = pickle.loads(args.cache.read_bytes()) if args.cache and args.cache.exists() else {}
    pages = pages_of((truth, described(truth, peer_texts(truth, cache))) for truth in truths(folder))
    if args.cache:
        args.cache.write_bytes(pickle.dumps(cache))
    if args.write:
        MODEL_FILE.write_text(written(learned(pages, words_of(pages)), pages), "utf-8")
        return 0
    words = words_of(pages)
    rounds = [scores_of(list(judged(pages, words, SEED + number))) for number in range(args.rounds)]
    rows: list[list[Any]] = []
    for name, each in rounds[0].items():
        for measure in each:
            found = [float(scores[name][measure]) for scores in rounds]
            rows.append([name, measure, round(statistics.mean(found), 4), round(statistics.pstdev(found), 4)])
    table = ResultTable(
        f"main text, judged by models that have not seen the site; {args.rounds} rounds with folds of their own",
        ["collection", "measure", "mean", "standard deviation"],
        rows,
    )
    print(table.markdown())
    write_result("main_text", [table], "python bench/train_main_text.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
