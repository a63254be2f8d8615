"""Does each fault test fail without the care it tests? Each mutation takes one care away from the engine; the test
named beside it must then fail.

    python tests/streams/kafka/mutations.py [NAME …]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MUTATIONS = {
    # care taken away: tests of which at least one must fail
    "marks": "polls_thrown_away",
    "tail": "last_poll_thrown_away",
    "position": "without_committed_offsets",
    "transaction": "killed_around",
    "fencing": "stopped_around",
    "former_owner": "stopped_around",
    "generations": "missed_a_generation",
    "leaving": "slow_to_let_go",
    "order": "not_overtaken",
    "work_left": "work_left",
    "dead_letters": "dead_letter",
    "changelog": "lost_or_damaged",
    "true_gaps": "true_gaps",
    "following": "killed_around",
}


def main() -> int:
    names = sys.argv[1:] or list(MUTATIONS)
    survivors = []
    for name in names:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            str(Path(__file__).with_name("test_faults.py")),
            str(Path(__file__).with_name("test_rounds.py")),
            "-k",
            MUTATIONS[name],
        ]
        environment = os.environ | {"DUSTREAM_TOY_WITHOUT": name, "DUSTREAM_TOY_WAIT_S": "25"}
        caught = subprocess.run(command, env=environment, capture_output=True).returncode == 1
        print(f"without {name}: {'noticed' if caught else 'NOT NOTICED'}", flush=True)
        survivors += [] if caught else [name]
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
