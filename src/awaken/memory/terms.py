"""The words of a text, the same for every engine.

An engine never parses what a user typed: it gets words of letters and digits only, so no syntax of
its query language can reach it.
"""

import re
import unicodedata
from collections.abc import Iterator

QUERY_TERMS = 32
"""How many words of a query are looked for."""
TERM_CHARS = 64

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
"""Scripts that are written without spaces; they are searched by pairs of characters."""
_EMOJI = re.compile("[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")
_S_ENDINGS_KEPT = ("ss", "us", "is")


def split_terms(text: str) -> tuple[str, ...]:
    """Return the words that a text is found by: case, accents and plural endings do not matter.

    Of scripts without spaces these are pairs of characters, and each character: a word may have
    one only. A pictograph is a word by its number, because an index keeps letters and digits.
    """
    found: list[str] = []
    for word, is_unspaced in _split_words(text):
        found += _list_pairs(word) if is_unspaced else [word]
        if is_unspaced and len(word) > 1:
            found += word
    return tuple(found)


def query_terms(query: str) -> tuple[str, ...]:
    """Return the words to look for, each once."""
    found: dict[str, None] = {}
    for word, is_unspaced in _split_words(query):
        found |= dict.fromkeys(_list_pairs(word) if is_unspaced else [word])
    return tuple(found)[:QUERY_TERMS]


def _split_words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield words in order, and whether each is a run of a script without spaces."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    composed = unicodedata.normalize("NFKC", "".join(it for it in folded if _is_shown(it)))
    for word in _WORD.findall(composed):
        if word.isascii():
            yield _singular(word)[:TERM_CHARS], False
        else:
            yield from _split_unspaced(word)
    for emoji in _EMOJI.findall(composed):
        yield f"u{ord(emoji):x}", False


def _is_shown(char: str) -> bool:
    """Whether a character tells words apart: no accent, vowel sign or joiner cuts one in two.

    What is kept has no joiners, and what is looked for may have them.
    """
    kind = unicodedata.category(char)
    return kind[0] != "M" and kind != "Cf"


def _split_unspaced(word: str) -> Iterator[tuple[str, bool]]:
    end = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > end:
            yield word[end : run.start()][:TERM_CHARS], False
        yield run.group(), True
        end = run.end()
    if end < len(word):
        yield word[end:][:TERM_CHARS], False


def _list_pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _singular(word: str) -> str:
    """Remove the plural ending of an English word: few rules, applied to both sides alike."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(_S_ENDINGS_KEPT):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    return word[:-1]
