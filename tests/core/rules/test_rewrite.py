"""Writes that skip the standard form and a second decomposition must come out as if they had not."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.rules.rewrite import PatternRewriter, Taken, as_regex, replaced
from dustream.core.urls.keys import keys_and_values
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, RuleSet, SubstringRewrite, UrlRule
from dustream.streams.rules_io.exports import to_nutch

HOSTS = st.lists(st.sampled_from(["www", "m", "1", "22", "com", "example"]), min_size=1, max_size=5).map(".".join)
URLS = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https"]),
    HOSTS,
    st.sampled_from(["", ":80", ":443", ":81"]),
    st.sampled_from(["", "a", "a/b.html?x=1&y=2", "1/2;v=3", "?x"]),
).map(standard_form)
WRITES = st.lists(
    st.builds(KeyWrite, st.just("scheme"), st.just("set"), st.sampled_from(["http", "https", "ftp"]))
    | st.builds(KeyWrite, st.sampled_from(["host_0", "host_1", "host_3"]), st.just("set"),
                st.sampled_from(["www", "7", "A", "com"]))
    | st.builds(KeyWrite, st.sampled_from(["path_0", "path_1", "ext"]), st.just("set"),
                st.sampled_from(["x", "..", "."]))
    | st.builds(KeyWrite, st.sampled_from(["?x=", "?y="]), st.just("drop")),
    min_size=1,
    max_size=3,
)  # fmt: skip


@given(URLS, WRITES)
@settings(max_examples=500)
def test_what_is_written_is_in_standard_form_and_taken_apart(url: str, writes: list[KeyWrite]) -> None:
    keys, values = keys_and_values(url)
    rewrite = PatternRewrite(tuple(KeyTest(key, "some") for key in keys), tuple(writes))
    writer = PatternRewriter(rewrite).writer_of(keys)
    if writer is None:
        return
    after = writer.write(Taken(url, keys, values))
    assert standard_form(after.url) == after.url
    assert (after.keys, list(after.values)) == keys_and_values(after.url)


def test_the_regular_expression_of_a_substring_rule_that_puts_a_number() -> None:
    rule = SubstringRewrite("http://example.com/", "/v2/", "1/", False, False)
    pattern, replacement = as_regex(rule)
    assert re.sub(pattern, replacement, "http://example.com/a/v2/b") == replaced(rule, "http://example.com/a/v2/b")
    exported = to_nutch([RuleSet(site="example.com", version=1, rules=(_rule(rule, pattern, replacement),))])
    assert r"<substitution>$1\1/$2</substitution>" in exported.text  # Java may read $11 as group 11


def _rule(rewrite: SubstringRewrite, pattern: str, replacement: str) -> UrlRule:
    return UrlRule(id="x", rewrite=rewrite, pattern=pattern, replacement=replacement, stage="active", learner="dust")
