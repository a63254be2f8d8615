"""One tool on a Parquet file: writes the ids of the rows that it keeps. Run by bench/corpora.py, one process each.

    python bench/corpora_peers.py TOOL CORPUS FOLDER JOBS KEPT

Parameters are those that each tool's own documentation gives: 128 permutations and a threshold of .9; of a group, the
first row is kept.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

# Words, and characters of scripts without spaces, as all tools are given them that do not split texts themselves.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
PERMUTATIONS = 128
THRESHOLD = 0.9
SHINGLE_WORDS = 5


def texts_of(corpus: str) -> list[str]:
    import pyarrow.parquet as pq

    return pq.read_table(corpus)["text"].to_pylist()


def shingles(text: str) -> list[str]:
    words = WORD.findall(text.lower())
    return [" ".join(words[at : at + SHINGLE_WORDS]) for at in range(max(1, len(words) - SHINGLE_WORDS + 1))]


def with_dustream(corpus: str, folder: str, jobs: str) -> list[int]:
    import pyarrow.parquet as pq

    command = [sys.executable, "-m", "dustream.streams.cli.main", "dedupe", corpus, "--out", folder, "--id", "id"]
    subprocess.run([*command, "--jobs", jobs, "--quiet"], check=True)
    path = Path(folder) / "verdicts.parquet"
    return pq.read_table(path, columns=["id"], filters=[("role", "!=", "duplicate")])["id"].to_pylist()


def with_rensa(corpus: str, tokens) -> list[int]:
    """The loop of its README: an LSH that a row enters unless a row in it is as similar."""
    from rensa import RMinHash, RMinHashLSH

    lsh, hashes, kept = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=16), {}, []
    for row, text in enumerate(texts_of(corpus)):
        minhash = RMinHash(num_perm=PERMUTATIONS, seed=42)
        minhash.update(tokens(text))
        if not any(hashes[other].jaccard(minhash) >= THRESHOLD for other in lsh.query(minhash)):
            lsh.insert(row, minhash)
            hashes[row] = minhash
            kept.append(row)
    return kept


def with_datasketch(corpus: str) -> list[int]:
    from datasketch import MinHash, MinHashLSH

    lsh, hashes, kept = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS), {}, []
    for row, text in enumerate(texts_of(corpus)):
        minhash = MinHash(num_perm=PERMUTATIONS)
        minhash.update_batch([shingle.encode() for shingle in set(shingles(text))])
        if not any(hashes[other].jaccard(minhash) >= THRESHOLD for other in lsh.query(minhash)):
            lsh.insert(row, minhash)
            hashes[row] = minhash
            kept.append(row)
    return kept


def with_text_dedup(corpus: str, folder: str) -> list[int]:
    from datasets import load_from_disk

    options = ["--path", "parquet", "--data_files", corpus, "--split", "train", "--column", "text", "--output", folder]
    options += ["--ngram", str(SHINGLE_WORDS), "--threshold", str(THRESHOLD), "--num_perm", str(PERMUTATIONS)]
    subprocess.run([sys.executable, "-m", "text_dedup.minhash", *options], check=True, cwd=os.path.dirname(folder))
    return list(load_from_disk(folder)["id"])


def with_datatrove(corpus: str, folder: str) -> list[int]:
    import pyarrow.parquet as pq
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import (
        MinhashConfig,
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
    )
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.writers import ParquetWriter
    from datatrove.utils.hashing import HashConfig

    config = MinhashConfig(
        hash_config=HashConfig(precision=64), n_grams=SHINGLE_WORDS, num_buckets=15, hashes_per_bucket=7
    )

    def reader():
        return ParquetReader(os.path.dirname(corpus), glob_pattern=os.path.basename(corpus), id_key="none")

    stages = [
        [reader(), MinhashDedupSignature(f"{folder}/signatures", config=config)],
        [MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config)],
        [MinhashDedupCluster(f"{folder}/buckets", f"{folder}/remove", config=config)],
        [reader(), MinhashDedupFilter(f"{folder}/remove"), ParquetWriter(f"{folder}/kept", compression=None)],
    ]
    tasks = [1, config.num_buckets, 1, 1]
    for number, (stage, count) in enumerate(zip(stages, tasks, strict=True)):
        LocalPipelineExecutor(stage, tasks=count, workers=1, logging_dir=f"{folder}/logs/{number}").run()
    return [
        int(each.rpartition("/")[2])
        for path in Path(f"{folder}/kept").glob("*.parquet")
        for each in pq.read_table(path)["id"].to_pylist()
    ]


def main(tool: str, corpus: str, folder: str, jobs: str, target: str) -> None:
    if tool == "dustream":
        kept = with_dustream(corpus, folder, jobs)
    elif tool.startswith("rensa"):
        kept = with_rensa(corpus, (lambda text: text.split()) if tool == "rensa-words" else shingles)
    elif tool == "datasketch":
        kept = with_datasketch(corpus)
    elif tool == "text-dedup":
        kept = with_text_dedup(corpus, folder)
    else:
        kept = with_datatrove(corpus, folder)
    Path(target).write_text("\n".join(map(str, kept)))


if __name__ == "__main__":
    main(*sys.argv[1:])
