"""Main text of generated pages stays as it is when only a line at the end of the page changes."""

from __future__ import annotations

import pytest
from main_text_kinds import generated

from dustream.core.text.scan import scan

PAGES, SEED = 600, 5  # none of which the model has learned from
CHANGED_MAX = PAGES // 100
ADVERT = '<div class="advertisement"><a href="/c?{n}">Save {n} % on all running shoes this week, order now</a></div>'
STAMP = '<div class="footer">Page generated 2024-05-{n:02} 12:{n:02}:07 in 0.{n:03} s, {n}1 visitors online</div>'


@pytest.mark.parametrize("line", [ADVERT, STAMP])
def test_a_line_at_the_end_rarely_changes_main_text(line: str) -> None:
    changed = [
        truth.site
        for truth in generated(PAGES, SEED)
        if len({scan(truth.page.replace(b"</body>", f"{line.format(n=n)}</body>".encode())).text for n in (3, 17)}) > 1
    ]
    assert len(changed) <= CHANGED_MAX, changed
