"""On shared hosting rules are learned host by host; elsewhere hosts of a site speak for each other."""

from __future__ import annotations

from dustream.core.rules.learn import SiteUrl, learn_site
from dustream.core.rules.normalize import SiteRules
from dustream.schemas.rules import PatternRewrite

USERS = [f"user{n}" for n in range(30)]


def blogs(pages: int, users: list[str]) -> list[SiteUrl]:
    """The first half of the users print their posts under ?view=print, the others show something else there."""
    known = []
    for user in users:
        prints = USERS.index(user) < len(USERS) // 2
        for i in range(pages):
            post = f"http://{user}.blogs.com/post{i}"
            known.append(SiteUrl(post, f"{user} {i}"))
            known.append(SiteUrl(f"{post}?view=print", f"{user} {i}" if prints else f"{user} {i} otherwise"))
    return known


def test_users_of_a_host_do_not_speak_for_each_other() -> None:
    known = blogs(8, USERS)
    run = SiteRules("blogs.com", learn_site("blogs.com", known).rules)
    for n, user in enumerate(USERS):
        url = f"http://{user}.blogs.com/another?view=print"
        assert (run.apply(url)[0] != url) == (n < len(USERS) // 2)
    unseen = "http://somebody.blogs.com/another?view=print"
    assert run.apply(unseen)[0] == unseen


def test_a_host_with_few_pages_has_no_rule_of_the_others() -> None:
    known = [*blogs(8, USERS[:14]), *blogs(3, USERS[14:15])]
    rules = learn_site("blogs.com", [*known, *blogs(8, USERS[15:])]).rules
    run = SiteRules("blogs.com", rules)
    assert run.apply("http://user3.blogs.com/another?view=print")[0] == "http://user3.blogs.com/another"
    assert run.apply("http://user14.blogs.com/post1?view=print")[0] == "http://user14.blogs.com/post1?view=print"


def test_hosts_with_the_same_pages_are_one_site() -> None:
    hosts = [f"mirror{n}" for n in range(20)]
    known = [SiteUrl(f"http://{host}.x.com/page{i}.html", f"{i}") for host in hosts for i in range(12)]
    run = SiteRules("x.com", learn_site("x.com", known).rules)
    assert len({run.apply(f"http://{host}.x.com/page3.html")[0] for host in hosts}) < len(hosts)


def test_a_rule_about_hosts_holds_for_hosts_seen() -> None:
    known = [
        SiteUrl(f"http://www.{inner}x.com/page{i}.html", f"{i}") for inner in ("a.", "b.", "c.", "") for i in range(30)
    ]
    rules = learn_site("x.com", known).rules
    for rule in rules:
        if isinstance(rule.rewrite, PatternRewrite):
            tested = {test.key: test.test for test in rule.rewrite.tests}
            written = [write.key for write in rule.rewrite.writes if write.key.startswith("host_")]
            assert all(tested.get(key, "absent") in ("is", "absent") for key in written)
    run = SiteRules("x.com", rules)
    assert len({run.apply(entry.url)[0] for entry in known}) == 30
    unseen = "http://www.d.x.com/page3.html"
    assert run.apply(unseen)[0] == unseen
