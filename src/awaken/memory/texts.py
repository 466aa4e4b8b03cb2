"""Cleaning a text before it is kept: no secrets, no hidden characters, one form."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator

from awaken.redaction import remove_secrets

PIECE_CHARS = 200_000
"""How much of a text is searched for secrets at once."""
_KEPT = frozenset("\n\t")
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Other ends of lines and pages: without them the words around one would be a single word."""


def clean_text(text: str) -> str:
    """Return a text as it is kept: composed, visible, without secrets.

    Control characters, characters without width and those that change the direction of writing
    could hide words from the person who looks at a fact; they are removed.
    """
    composed = unicodedata.normalize("NFC", _LINE_ENDS.sub("\n", text))
    shown = "".join(char for char in composed if char in _KEPT or not _is_hidden(char))
    # Piece by piece: of a longer text the rest would count as secret.
    return "".join(remove_secrets(it) for it in _cut_pieces(shown)).strip()


def _cut_pieces(text: str) -> Iterator[str]:
    """Cut a long text where no secret can be: between paragraphs, else lines, else words."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        for mark in ("\n\n", "\n", " "):
            if (place := text.rfind(mark, start + PIECE_CHARS // 2, end)) > 0:
                end = place + len(mark)
                break
        yield text[start:end]
        start = end
    yield text[start:]


def digest_fact(text: str) -> str:
    """Return the same for facts that differ only in case and spaces."""
    said = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256(said.encode()).hexdigest()


def _is_hidden(char: str) -> bool:
    if char.isascii():
        return not char.isprintable()
    # Cs: half of a surrogate pair, which no column can keep. Co: a glyph that only a font knows.
    # Selectors of glyph variants are marks, which scripts need, but can carry a hidden text.
    is_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return is_selector or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
