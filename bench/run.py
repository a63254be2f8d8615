"""All benchmarks, one after the other: `python bench/run.py [--quick] [NAME …]`. Output goes to bench/out/, too.

`--quick`: small sizes, where a benchmark has them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHMARKS = (
    "text",
    "scanner",
    "extractors",
    "clock",
    "crawl_memory",
    "pipeline",
    "once",
    "search",
    "codes",
    "containment",
    "guo",
    "winners",
    "questions",
    "speedup",
    "partitions",
    "rules",
    "rules_lei",
    "rules_dust",
    "rules_deploy",
    "big_groups",
    "breaker",
    "recrawl",
    "limits",
)
QUICK = ("codes", "containment", "partitions", "big_groups", "recrawl", "rules", "rules_lei")


def run(name: str, out: Path, *, quick: bool) -> int:
    print(f"\n=== {name} " + "=" * (70 - len(name)), flush=True)
    started = time.perf_counter()
    with (out / f"{name}.txt").open("w") as file:
        command = [sys.executable, str(HERE / f"{name}.py"), *(["--quick"] if quick and name in QUICK else [])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
    code = process.wait()
    print(f"--- {name}: {time.perf_counter() - started:.0f} s" + (f", FAILED ({code})" if code else ""), flush=True)
    return code


def main() -> int:
    wanted = [name for name in sys.argv[1:] if name != "--quick"] or list(BENCHMARKS)
    if unknown := sorted(set(wanted) - set(BENCHMARKS)):
        print(f"no benchmark called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    return max(run(name, out, quick="--quick" in sys.argv) for name in wanted)


if __name__ == "__main__":
    sys.exit(main())
