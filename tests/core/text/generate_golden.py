"""Writes tests/golden/signature anew, of its texts and pages: `python tests/core/text/generate_golden.py`.

Bytes that differ are those of another SIGNATURE_VERSION: it refuses to change any of the version they were written for.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from test_signature import GOLDEN, golden, page_fingerprint, text_fingerprint

from dustream.schemas.signature import SIGNATURE_VERSION


def write(name: str, content: dict[str, Any]) -> None:
    (GOLDEN / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")


def main() -> int:
    found = {
        "signatures": {name: text_fingerprint(text) for name, text in golden("texts").items()},
        "page_signatures": {name: page_fingerprint(page) for name, page in golden("pages").items()},
    }
    if golden("version")["signature_version"] == SIGNATURE_VERSION:
        for name, now in found.items():
            if any(now[each] != known for each, known in golden(name).items()):
                print(f"{name}.json has other bytes for version {SIGNATURE_VERSION}: raise it first", file=sys.stderr)
                return 1
    for name, now in found.items():
        write(name, now)
    write("version", {"signature_version": SIGNATURE_VERSION})
    return 0


if __name__ == "__main__":
    sys.exit(main())
