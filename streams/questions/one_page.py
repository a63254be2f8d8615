"""What a URL is, since when, and why: from its own row, its winner's and its group's edges."""

from __future__ import annotations

from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.errors import BadEvent, BadSetting
from dustream.core.pages.former import NOT_KEPT, FormerRow, merged
from dustream.core.pages.rows import UNKNOWN_VERSION, since_of
from dustream.core.urls.identity import page_identity
from dustream.core.vertex import END, url_of
from dustream.schemas.pages import Verdict
from dustream.schemas.status import DuplicateStatus
from dustream.streams.questions.criteria import CriterionDecision, decision
from dustream.streams.questions.evidence import EvidencePath, evidence
from dustream.streams.questions.near_urls import near_urls
from dustream.streams.questions.origins import Where, where_read
from dustream.streams.questions.pages import KnownPage, content_page, known_page, verdict_of
from dustream.streams.questions.state import ReadableState, task_table

REJECTIONS_SHOWN_MAX = 5
MEMBERS_SHOWN_MAX = 5

PROBLEMS = {
    "redirect_cut": "its redirects run in a circle, or on for too long",
    "target_gone": "the page it leads to is gone",
    "target_unknown": "the page it leads to was never seen, or its content is not known",
    "content_unknown": "it was fetched, but its content is not in the input: kept, because it cannot be compared",
    "truncated": "only the first 8 MiB of it were compared",
}

DECIDED = {"not_duplicate": "kept: an operator decided that it is not a duplicate"}


class GroupFacts(Struct, frozen=True):
    """A page's group: its public id, how many pages with content it has, whether it is held, and some other members."""

    id: str
    size: int
    held: bool
    others: list[str]


class ContentTimes(Struct, frozen=True):
    """A content of a URL: the first and the last fetch that brought it, in milliseconds, the payload digest of the
    first if the input has it, and whether it is the present one. Not `known`: all contents together that are not kept
    any more or that revisits found."""

    first: int
    last: int
    digest: str = ""
    present: bool = False
    known: bool = True


class RejectedRecord(Struct, frozen=True):
    """A rejected record of the URL."""

    source: str
    position: int
    reason: str


class PageAnswer(Struct, frozen=True, kw_only=True):
    """The answer about one URL, in one market. For a redirect, winner, group and evidence are those of its target.

    `near_urls`: known URLs that may be meant instead of this one, or of the unknown target of a redirect."""

    url: str
    role: str
    words: str
    market: str
    since: int | None = None
    last_fetched: int | None = None
    decided_by: Where | None = None
    way: list[str] = []
    problem: str | None = None
    winner: str | None = None
    relation: str | None = None
    similarity: float | None = None
    decision: CriterionDecision | None = None
    group: GroupFacts | None = None
    evidence: EvidencePath | None = None
    rejected: list[RejectedRecord] = []
    near_urls: list[str] = []
    history: list[ContentTimes] = []


def ask_page(state: ReadableState, url: str, market: str | None = None, *, with_evidence: bool = True) -> PageAnswer:
    """What a URL is; in the first market if none is named."""
    number = market_number(state, market)
    name = state.settings.markets[number].name
    page, status = known_page(state, url), state.status(url)
    if page is None or status is None:
        return _unknown(state, url, name)
    content = content_page(state, page)
    verdict = None if content is None else verdict_of(content, number)
    role, relation = _role(status, name)
    return PageAnswer(
        url=url,
        role=role,
        words=_kept_words(page, number) or _words(status, role, verdict, page),
        market=name,
        since=since_of(page.row),
        last_fetched=page.row.version,
        decided_by=where_read(state, page.row.origin),
        way=_way(page),
        problem=status.problem,
        winner=None if verdict is None else verdict.winner,
        relation=relation,
        similarity=_similarity(content, verdict),
        decision=_decision(state, number, content, verdict),
        group=None if content is None else group_facts(state, content),
        evidence=_evidence_to_winner(state, content, verdict) if with_evidence else None,
        near_urls=near_urls(state, _way(page)[-1]) if status.problem == "target_unknown" else [],
        history=_history(state, page),
    )


def _history(state: ReadableState, page: KnownPage) -> list[ContentTimes]:
    """The contents that the URL had, the latest first."""
    prefix, row = page.url + END, page.row
    rows = {key[len(prefix) :]: former for key, former in task_table(state, "pages", page.url, "former").scan(prefix)}
    present = None
    if row.kind == "content" and not row.revisit:
        own = FormerRow(row.first_at, row.found_at, row.first_digest)
        present = row.content_hash.hex()
        rows[present] = merged(own, rows[present]) if present in rows else own
    found = [
        ContentTimes(each.first, each.last, each.first_digest, content == present, content != NOT_KEPT)
        for content, each in rows.items()
    ]
    return sorted(found, key=lambda each: (-each.last, -each.first, each.digest))


def market_number(state: ReadableState, name: str | None) -> int:
    """A market's index in the settings."""
    names = [market.name for market in state.settings.markets]
    if name is None:
        return 0
    if name not in names:
        raise BadSetting(f"there is no market {name!r} in this state: choose one of {', '.join(names)}")
    return names.index(name)


def group_facts(state: ReadableState, page: KnownPage) -> GroupFacts | None:
    """The group of a page; None if it matches no other page."""
    owner, standing = page.row.owner, page.row.standing
    if owner is None or standing is None or standing.alone:
        return None
    row = task_table(state, "groups", owner, "groups").get(owner)
    if row is None:  # its membership is moving to another group
        return None
    prefix = f"{owner}{END}"
    members = islice(task_table(state, "groups", owner, "memberships").names(prefix), MEMBERS_SHOWN_MAX + 1)
    others = [url for name in members if (url := url_of(name[len(prefix) :])) != page.url]
    return GroupFacts(standing.group, row.size, standing.held, others[:MEMBERS_SHOWN_MAX])


def rejections(state: ReadableState, url: str) -> list[RejectedRecord]:
    """Rejected records of this URL."""
    letters = (letter for letter in state.dead_letters(url.split("/")[2]) if _identity(letter.url or "") == url)
    some = islice(letters, REJECTIONS_SHOWN_MAX)
    return [RejectedRecord(letter.source, letter.position, letter.reason) for letter in some]


def _identity(url: str) -> str | None:
    try:
        return page_identity(url)
    except BadEvent:
        return None


def _unknown(state: ReadableState, url: str, market: str) -> PageAnswer:
    rejected = rejections(state, url)
    role = "rejected" if rejected else "unknown"
    words = "rejected: no fetch of it could be used" if rejected else _never_seen(state, url)
    return PageAnswer(
        url=url, role=role, words=words, market=market, rejected=rejected, near_urls=near_urls(state, url)
    )


def _never_seen(state: ReadableState, url: str) -> str:
    row = task_table(state, "pages", url, "pages").get(url)
    if row is not None and row.follower_count:
        return "never fetched: other pages redirect to it"
    if row is not None and row.version != UNKNOWN_VERSION:
        return "fetched, but not compared with the others yet: ask again"
    ignored = sum(state.counts().ignored.values())
    if ignored:
        return f"not known: no usable fetch of it was in the input ({ignored:,} events were ignored, see summary.json)"
    return "not known: no fetch of it was in the input"


def _role(status: DuplicateStatus, market: str) -> tuple[str, str | None]:
    each = (status.markets or {}).get(market)
    return (status.role, status.relation) if each is None else (each.role, each.relation)


def _way(page: KnownPage) -> list[str]:
    """The URLs on a redirect's path, as far as they are known."""
    if page.row.kind != "redirect":
        return []
    return [page.row.target] if page.row.upstream is None else list(page.row.upstream.path)


def _words(status: DuplicateStatus, role: str, verdict: Verdict | None, page: KnownPage) -> str:
    """What the page is, as a sentence without its subject."""
    winner = "" if verdict is None else verdict.winner
    if status.problem == "content_unknown":
        return f"not compared: {PROBLEMS[status.problem]}"
    if role == "unique":
        return "unique: no other known page is similar enough"
    if role == "winner":
        return "a winner: the page to keep among those like it"
    if role == "duplicate" and verdict is not None and verdict.contained:
        return f"contained in {winner}, which has {verdict.similarity:.0%} of its shingles"
    if role == "duplicate":
        decided = verdict is not None and verdict.decided and not verdict.exact
        return f"a duplicate of {winner}" + (": an operator decided that the two are the same" if decided else "")
    if role == "held":
        too_much = "its group is too large" if _group_held(page) else "its site would lose too many pages"
        would_be = "contained in" if verdict is not None and verdict.contained else "a duplicate of"
        return f"held: it would be {would_be} {winner}, but {too_much} (see `dustream breaker --help`)"
    if role == "gone":
        return "gone: the last fetch did not find it"
    if status.problem is not None:
        return f"a redirect that leads to no page: {PROBLEMS[status.problem]}"
    related = "contained in" if verdict is not None and verdict.contained else "a duplicate of"
    kept = "" if winner == status.target else f", which is {related} {winner}"
    return f"a redirect to {status.target}{kept}"


def _kept_words(page: KnownPage, market: int) -> str | None:
    """For a page that is kept although it matches a better one."""
    standing = page.row.standing
    if page.row.kind != "content" or standing is None:
        return None
    if page.row.kept:
        would_be = verdict_of(KnownPage(page.url, replace(page.row, kept=False)), market)
        less = "" if would_be.winner == page.url else f"; its winner would be {would_be.winner}"
        return f"{DECIDED['not_duplicate']}{less}"
    given, counted = page.row.verdicts[market], verdict_of(page, market)
    if given == counted or counted.contained:
        return None
    alike = f"it is {given.similarity:.4f} similar to {given.winner}"
    return f"kept: {alike}, but an operator split the group, in which duplicates begin at {standing.pass_from:g}"


def _group_held(page: KnownPage) -> bool:
    return page.row.standing is not None and page.row.standing.held


def _similarity(content: KnownPage | None, verdict: Verdict | None) -> float | None:
    if content is None or verdict is None or verdict.winner == content.url:
        return None
    return verdict.similarity


def _decision(
    state: ReadableState, market: int, content: KnownPage | None, verdict: Verdict | None
) -> CriterionDecision | None:
    winner = None if verdict is None or verdict.contained else known_page(state, verdict.winner)
    if content is None or winner is None or winner.url == content.url:
        return None
    return decision(state.settings.markets[market], winner, content)


def _evidence_to_winner(
    state: ReadableState, content: KnownPage | None, verdict: Verdict | None
) -> EvidencePath | None:
    if content is None or verdict is None or verdict.winner == content.url or content.row.owner is None:
        return None
    if verdict.contained:  # the winner is in another group
        return None
    winner = known_page(state, verdict.winner)
    return None if winner is None else evidence(state, content.row.owner, content.vertex, winner.vertex)
