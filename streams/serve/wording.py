"""Statuses in short, as the service and its pages write them."""

from __future__ import annotations

from dustream.schemas.lookup import UrlStatus
from dustream.schemas.status import DuplicateStatus
from dustream.streams.questions.one_page import DECIDED, PROBLEMS


def url_status(status: DuplicateStatus) -> UrlStatus:
    return UrlStatus(
        url=status.url,
        role=status.role,
        words=status_words(status),
        group=status.group,
        winner=status.winner,
        relation=status.relation,
        similarity=status.similarity,
        target=status.target,
        problem=status.problem,
        decided=status.decided,
        since=status.since,
    )


def unknown_status(url: str) -> UrlStatus:
    return UrlStatus(url=url, role="unknown", words="not known: no fetch of it was in the input")


def invalid_status(url: str, reason: str) -> UrlStatus:
    return UrlStatus(url=url, role="invalid", words=reason)


def status_words(status: DuplicateStatus) -> str:
    """What the page is, as a sentence without its subject."""
    if status.problem == "content_unknown":
        return f"not compared: {PROBLEMS[status.problem]}"
    if status.decided is not None:
        return DECIDED[status.decided]
    if status.role == "unique":
        return "unique: no other page known is similar enough"
    if status.role == "winner":
        return "a winner: the page to keep among those like it"
    if status.role == "gone":
        return "gone: the last fetch did not find it any more"
    if status.role == "redirect":
        if status.problem is not None:
            return f"a redirect that leads to no page: {PROBLEMS[status.problem]}"
        return f"a redirect to {status.target}"
    held = "held: kept, although " if status.role == "held" else ""
    return held + _related(status)


def _related(status: DuplicateStatus) -> str:
    measure = "" if status.similarity is None else f", similarity {status.similarity:.4f}"
    if status.relation == "contained":
        return f"contained in {status.winner}" + measure.replace("similarity", "share")
    return f"a duplicate of {status.winner} ({status.relation}{measure})"
