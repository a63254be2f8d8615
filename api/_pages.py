"""One page or text: its signature, and what is read out of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dustream.core.text.extracted import TextMode
from dustream.schemas.signature import PageSignature

if TYPE_CHECKING:
    from datasketch import MinHash

# How pages begin, after white space and comments (WHATWG MIME Sniffing, section 7.1).
_HTML: Final = re.compile(
    r"\ufeff?(?>\s|<!--.*?-->|<\?xml.*?\?>)*+<(?:!doctype\s+html|html|head|body|script|iframe|h1|div|font|table|a|style"
    r"|title|b|br|p|meta|link)(?=[\s>/])",
    re.IGNORECASE | re.DOTALL,
)
_SNIFFED_MAX: Final = 4_096


class Signature(Struct, frozen=True):
    """What texts are compared by: the set of their shingles, five tokens each.

    Two signatures are equal if their texts are, up to case, white space and punctuation. They can be pickled, and
    written with `to_bytes`.
    """

    _signature: PageSignature

    def jaccard(self, other: Signature) -> float:
        """The exact Jaccard similarity of the two shingle sets, from 0 to 1.

        >>> one, other = sign("to be or not to be that is the question"), sign("to be or not to be")
        >>> one.jaccard(one), round(one.jaccard(other), 2)
        (1.0, 0.14)
        """
        from dustream.core.text.shingle_bytes import shingle_array
        from dustream.core.text.shingles import jaccard

        return float(jaccard(shingle_array(self._signature.shingles), shingle_array(other._signature.shingles)))

    def contains(self, other: Signature) -> float:
        """The exact share of the other text's shingles that this one has, from 0 to 1.

        >>> whole = " ".join(map(str, range(100)))
        >>> sign(whole).contains(sign(whole[50:200]))
        0.92
        """
        from dustream.core.text.shingle_bytes import shingle_array
        from dustream.core.text.shingles import common_shingles

        theirs = shingle_array(other._signature.shingles)
        common = common_shingles(shingle_array(self._signature.shingles), theirs)
        return float(common) / len(theirs) if len(theirs) else 0.0

    def to_datasketch(self) -> MinHash:
        """The MinHash as a datasketch object (128 permutations, scheme affine32), for an existing LSH index."""
        from dustream.core.text.minhash import to_datasketch

        return to_datasketch(self._signature)

    @property
    def content_hash(self) -> str:
        """128 bits in hexadecimal: equal for texts with the same tokens in the same order."""
        return self._signature.content_hash.hex()

    @property
    def lang(self) -> str:
        """The language as a primary subtag such as `en`, or "" if it is not known."""
        return self._signature.lang

    @property
    def token_count(self) -> int:
        return self._signature.token_count

    @property
    def shingle_count(self) -> int:
        from dustream.core.text.shingle_bytes import shingle_count

        return shingle_count(self._signature.shingles)

    def to_bytes(self) -> bytes:
        """For a file or a database; `Signature.from_bytes` reads it.

        >>> Signature.from_bytes(sign("some text").to_bytes()) == sign("some text")
        True
        """
        import msgspec

        return msgspec.msgpack.encode(self._signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Signature:
        import msgspec

        from dustream.core.errors import BadInput, StateMismatch
        from dustream.schemas.signature import SIGNATURE_VERSION

        try:
            signature = msgspec.msgpack.decode(data, type=PageSignature)
        except msgspec.MsgspecError as error:
            raise BadInput(f"these bytes are no signature: {error}") from None
        if signature.version != SIGNATURE_VERSION:
            raise StateMismatch(
                f"a signature of version {signature.version} cannot be compared with those of version "
                f"{SIGNATURE_VERSION}: sign the text again"
            )
        return cls(signature)

    def __repr__(self) -> str:
        return f"<Signature {self.content_hash[:12]} of {self.token_count} tokens>"


class Page(Struct, frozen=True):
    """What a page says. URLs are as the page writes them; "" stands for what is not there."""

    title: str
    lang: str
    text: str
    """The main text, one block a line; with `mode="full"` all visible text."""
    canonical: str


def sign(content: str | bytes, *, html: bool | None = None, lang: str = "") -> Signature:
    """The signature of a text, or of the main text of an HTML page.

    Without `html`, content that begins as a page does (a doctype, or a tag such as `<html>` or `<p>`) is read as HTML.
    Bytes are decoded as a browser would. `lang` overrules the language that is found.

    >>> sign("Some text, and more of it.").content_hash == sign("some text and MORE of it").content_hash
    True
    >>> sign("<html><p>Some text").content_hash == sign("Some text").content_hash
    True
    """
    from dustream.core.text import signature

    if html is None:
        html = looks_like_html(content)
    return Signature(signature.sign_page(content, lang=lang) if html else signature.sign(content, lang))


def extract(html: str | bytes, *, content_type: str | None = None, mode: TextMode = "main") -> Page:
    """Title, language, text and canonical link of an HTML page.

    `content_type` is the HTTP header; its charset helps to decode bytes.

    >>> page = extract("<html lang=en><title>Hello</title><body><p>The text of the page.")
    >>> page.title, page.lang, page.text
    ('Hello', 'en', 'The text of the page.')
    """
    from dustream.core.text.extractors import extractor

    found = extractor("scan")(html, content_type=content_type, mode=mode)
    return Page(found.title, found.lang, found.text.strip(), found.canonical)


def looks_like_html(content: str | bytes) -> bool:
    """Whether content begins as an HTML page does."""
    begin = content[:_SNIFFED_MAX]
    text = begin.decode("latin-1") if isinstance(begin, bytes) else begin
    return _HTML.match(text) is not None
