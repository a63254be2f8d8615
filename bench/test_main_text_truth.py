"""The body element of a site's templates, by which pairs are judged."""

from __future__ import annotations

from main_text_truth import Truth, body_range, body_with_headline

KAFKA = "A_kafka_site"
HEADLINE = '<div class="header">\n<h2 class="title">Class Harbour</h2>\n</div>\n'
CONTENT = "<div>Opens at <b>six</b>.</div>"
BODY = f'<div class="contentContainer">{CONTENT}</div>'
OLDER = f"<div><a>Overview</a></div>{HEADLINE}{BODY}<div>Copyright</div>"
NEWER = f'<div><a>Overview</a></div><main role="main">{HEADLINE}{BODY}</main><div>Copyright</div>'


def truth_of(page: str) -> Truth:
    place = body_range(page, KAFKA)
    assert place is not None
    return Truth(KAFKA, KAFKA, page.encode(), body=page[place[0] : place[1]])


def test_the_headline_is_part_of_the_body_wherever_a_template_has_it() -> None:
    assert truth_of(OLDER).body == CONTENT
    assert body_with_headline(truth_of(OLDER)) + "</div>" == body_with_headline(truth_of(NEWER))


def test_a_body_without_a_headline_right_before_it_stays_as_it_is() -> None:
    assert body_with_headline(truth_of(f"<div>Menu</div>{BODY}")) == CONTENT
    assert body_with_headline(truth_of(f"{BODY}{HEADLINE}")) == CONTENT
