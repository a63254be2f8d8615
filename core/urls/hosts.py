"""Host names in ASCII: the one conversion for identities, normalised URLs and sites.

UTS #46, non-transitional as in browsers: `straße.de` is `xn--strae-oqa.de`, not `strasse.de`, which is another site.
Labels that DNS rejects but servers use (underscores, emoji) are accepted: the mapping is that of the `idna` package,
without IDNA 2008's stricter check of each label.
"""

from __future__ import annotations

import re
from typing import Final

import idna

_NO_HOST_HAS: Final = re.compile(r'[\x00-\x20"#%/:<>?@\[\\\]^`{|}\x7f]')  # WHATWG URL: forbidden domain code points


def ascii_host(host: str) -> str:
    """The host in lower case, non-ASCII labels in punycode; UnicodeError if it has characters not allowed in hosts."""
    if host.isascii():
        return host.lower()
    mapped = idna.uts46_remap(host, std3_rules=False)
    if _NO_HOST_HAS.search(mapped):  # such as a full-width slash, which becomes a slash
        raise UnicodeError(f"{host!r} is not a host name")
    labels = mapped.split(".")
    return ".".join(label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii") for label in labels)
