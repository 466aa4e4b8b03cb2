"""Whatever is logged, a record is one line: nothing in its fields forges another one."""

import io
import json
import logging
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.extensions.observability.logs import STACK_MARK, TextLogFormatter, json_handler

FORGED = "2026-11-16 10:00:00Z ERROR awaken.server: forged"
BREAKS = (
    "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0", "\b",
    "\x1b[2K\r", "\x1b[1A", "\x1b]0;t\x07", "\x9b2J", "\u202e", "\u2066", "\x7f", "\ud800", "\\n",
)  # fmt: skip
JSON = '"}\n{"time": "x", "level": "ERROR", "message": "forged"}'
HEAD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ [A-Z]+ [\w.]+: ")
TEXTS = st.lists(
    st.one_of(st.sampled_from((*BREAKS, FORGED, JSON)), st.text(max_size=8)), max_size=8
).map("".join)


def _failed(text: str) -> BaseException:
    try:
        try:
            raise ValueError(text)
        except ValueError as error:
            raise RuntimeError(text) from error
    except RuntimeError as error:
        error.add_note(text)
        return error


def _written(handler: logging.Handler, stream: io.StringIO, text: str, **options: Any) -> str:
    logger = logging.getLogger("awaken.forging")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        logger.warning("It said '%s' at last.", text, **options)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


def _visible(lines: str) -> bool:
    return all(mark.isprintable() or mark == "\n" for mark in lines)


@sampled
@settings(max_examples=choose_size(80, 400), deadline=None)
@given(text=TEXTS)
@example(text="\n".join([FORGED] * 3))
@example(text=f"\u2028{FORGED}\x85{FORGED}\r{FORGED}")
def test_a_line_of_text_cannot_be_forged(text: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLogFormatter())
    written = _written(handler, stream, text)
    assert written.endswith("\n")
    assert len(written.splitlines()) == 1
    assert HEAD.match(written)
    assert _visible(written)


@sampled
@settings(max_examples=choose_size(30, 150), deadline=None)
@given(text=TEXTS)
@example(text="\n".join([FORGED] * 3))
def test_no_line_of_a_stack_looks_like_a_record(text: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLogFormatter())
    written = _written(handler, stream, text, exc_info=_failed(text))
    first, *rest = written.splitlines()
    assert HEAD.match(first)
    assert rest
    assert all(line.startswith(STACK_MARK) for line in rest)
    assert _visible(written)


FIELDS = ("time", "level", "logger", "message", "run_id", "stack", "error")
EXTRA_FIELDS = ("time", "level", "logger", "stack", "error", "given")


@sampled
@settings(max_examples=choose_size(80, 400), deadline=None)
@given(text=TEXTS, field=st.sampled_from(EXTRA_FIELDS), number=st.floats())
@example(text=JSON, field="level", number=float("nan"))
@example(text=JSON, field="given", number=float("inf"))
def test_a_line_of_json_cannot_be_forged(text: str, field: str, number: float) -> None:
    stream = io.StringIO()
    handler = json_handler(logging.StreamHandler(stream))
    extra = {field: text, "number": number, f"odd {text[:20]}": {text: [text]}}
    written = _written(handler, stream, text, exc_info=_failed(text), extra=extra)
    assert written.isascii()
    assert len(written.splitlines()) == 1

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    line = json.loads(written, parse_constant=refuse)
    assert (line["level"], line["logger"], line["error"]) == (
        "WARNING",
        "awaken.forging",
        "RuntimeError",
    )
    assert line["message"].startswith("It said '")


@pytest.mark.parametrize("mark", BREAKS)
def test_every_break_is_spelled_out(mark: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLogFormatter())
    written = _written(handler, stream, f"a{mark}{FORGED}")
    assert written.count("\n") == 1
    assert _visible(written)
