"""The words of a text, the same for every engine.

An engine never parses what a user typed: it gets words of letters and digits only, so no syntax of
its query language can reach it.
"""

import re
import unicodedata

QUERY_TERMS = 32
"""How many words of a query are looked for."""
TERM_CHARS = 64

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
"""Scripts that are written without spaces; they are indexed by pairs of characters."""
_S_ENDINGS_KEPT = ("ss", "us", "is")


def split_terms(text: str) -> tuple[str, ...]:
    """Return the words of a text in order: case, accents and plural endings do not matter."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(char for char in folded if not unicodedata.combining(char))
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", plain)):
        if word.isascii():
            found.append(_singular(word)[:TERM_CHARS])
        else:
            found += _split_unspaced(word)
    return tuple(found)


def query_terms(query: str) -> tuple[str, ...]:
    """Return the words to look for, each once."""
    return tuple(dict.fromkeys(split_terms(query)))[:QUERY_TERMS]


def _split_unspaced(word: str) -> list[str]:
    found, end = [], 0
    for run in _UNSPACED.finditer(word):
        if run.start() > end:
            found.append(word[end : run.start()][:TERM_CHARS])
        text, end = run.group(), run.end()
        found += [text[at : at + 2] for at in range(max(1, len(text) - 1))]
    if end < len(word):
        found.append(word[end:][:TERM_CHARS])
    return found


def _singular(word: str) -> str:
    """Remove the plural ending of an English word: few rules, applied to both sides alike."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(_S_ENDINGS_KEPT):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    return word[:-1]
