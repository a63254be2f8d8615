"""More histories than the tests have time for, and the check that every rule is needed.

python tests/model/run.py --histories 20000      random histories; prints the seeds that fail
python tests/model/run.py --seed 17              one of them again
python tests/model/run.py --mutations            rules disabled one by one: each must be caught
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from model_check import run_history
from model_world import random_history


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first history")
    parser.add_argument("--seed", type=int, help="run this history alone and show where it fails")
    parser.add_argument("--big", action="store_true", help="20 to 60 URLs instead of 4 to 22")
    parser.add_argument("--real-index", action="store_true", help="search with the real index")
    parser.add_argument("--representative", action="store_true", help="small changes are judged by the group's winner")
    parser.add_argument("--mutations", action="store_true")
    options = parser.parse_args()
    settings = {"big": options.big, "real_index": options.real_index, "representative": options.representative}
    if options.mutations:
        from model_mutations import check_mutations

        return check_mutations()
    if options.seed is not None:
        run_history(random_history(options.seed, **settings))
        return 0
    return run_many(options.first, options.histories, settings)


def run_many(first: int, count: int, settings: dict[str, bool]) -> int:
    started = time.perf_counter()
    failed, events, messages, crashes = [], 0, 0, 0
    for seed in range(first, first + count):
        history = random_history(seed, **settings)
        try:
            network = run_history(history)
        except Exception as error:
            failed.append(seed)
            if len(failed) <= 5:
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{type(error).__name__} {str(error)[:400]}"
                print(f"seed {seed}: {what} at {where.filename}:{where.lineno}", flush=True)
            continue
        events += len(history.events)
        messages += sum(network.messages.values())
        crashes += network.crashes
    seconds = time.perf_counter() - started
    print(
        f"{count} histories, {len(failed)} failed; {events} events, "
        f"{messages / max(1, events):.1f} messages per event, {crashes} crashes, {seconds:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
