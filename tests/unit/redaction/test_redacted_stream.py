"""A text that is redacted while it comes shows nothing that the redacted whole does not show."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.redaction.detectors import DETECTORS, Detector, build_detector
from awaken.redaction.replacement import redact_text
from awaken.redaction.streaming import RedactedStream

from .test_redaction import FOUND, HARMLESS

OWN = build_detector("own", r"(?m)^code|case [0-9]{1,4}(?:x{0,9}y)?$|\bfoo[+*]?\b", longest=40)
CUTS = list(range(150))
KNOWN = tuple(DETECTORS.values())
ALL = (*KNOWN, OWN)
PLANTED = [*FOUND, *HARMLESS, "code", "case 12xxxy", "foo", "\n", "-----END PRIVATE KEY-----"]
DISGUISES = ["\u200b", "\u0301", "\uff21", "é", "密", "\ufb03", "😀"]
GLUE = [*" .:=_-@+/\"'", "a", "Z", "7", "word ", " and then some words. ", *DISGUISES]

texts = st.lists(
    st.one_of(
        st.sampled_from(PLANTED),
        st.sampled_from(PLANTED).flatmap(lambda it: st.sampled_from([it[:3], it[3:], it[:-2]])),
        st.sampled_from(GLUE),
        st.text(max_size=4),
    ),
    max_size=12,
).map("".join)


def streamed(text: str, cuts: list[int], detectors: tuple[Detector, ...]) -> list[str]:
    stream = RedactedStream(detectors, stride=1 + len(cuts) % 3 * 10)
    places = sorted({0, len(text), *(it % (len(text) + 1) for it in cuts)})
    return [*(stream.feed(text[a:b]) for a, b in pairwise(places)), stream.end()]


@sampled
@settings(max_examples=choose_size(50, 250), deadline=None)
@given(
    texts,
    st.lists(st.integers(0, 10_000), max_size=40),
    st.sampled_from([ALL, (OWN,), *((it,) for it in ALL)]),
)
# A word in the middle of which everything before is settled.
@example("z" * 50 + "foo" + " " * 50, CUTS, (OWN,))
@example("z" * 50 + "\u0301\uff46oo" + " " * 50, CUTS, (OWN,))
# What ends within a character that stands for three.
@example("ab\ufb03" + "z" * 30, CUTS, (build_detector("m", "abf", 5),))
# Two that overlap, and a third that would begin where they do.
@example("abcde" + "z" * 30, CUTS, (build_detector("a", "abc", 6), build_detector("b", "cde", 6)))
def test_what_was_shown_is_always_the_beginning_of_the_redacted_whole(
    text: str, cuts: list[int], detectors: tuple[Detector, ...]
) -> None:
    pieces = streamed(text, cuts, detectors)
    whole = redact_text(text, detectors)
    seen = ""
    for piece in pieces:
        seen += piece
        assert whole.startswith(seen)
    assert seen == whole


@pytest.mark.parametrize("text", FOUND)
def test_what_could_become_one_is_kept_back_from_its_first_character(text: str) -> None:
    before = "this is enough to be looked at: "
    for upto in range(1, len(text)):
        stream = RedactedStream(KNOWN)
        assert stream.feed(before + text[:upto]) in (before, before[:-1])


def test_a_text_flows_a_few_words_behind() -> None:
    stream, said, shown = RedactedStream(KNOWN), "These are words, and some more of them. " * 50, 0
    for at, char in enumerate(said):
        shown += len(stream.feed(char))
        assert at - shown < 60
