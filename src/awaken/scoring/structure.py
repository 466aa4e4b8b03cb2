"""Scorers of structured answers: a typed output, or an answer that is JSON."""

import math
import re
from enum import StrEnum
from typing import Any

import msgspec

from awaken.authoring.json_schemas import JsonSchema
from awaken.contracts.evals.scores import Outcome
from awaken.contracts.record import StrictRecord

from .json_texts import strip_fence
from .marks import EVIDENCE_ITEMS, CannotScore, Check, Marks, ScorerKind, ScorerSetup, fail, grade
from .subsets import find_mismatch

JSON_CHARS_MAX = 2_000_000
NUMBER_CHARS_MAX = 100_000
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")


class AnswerPart(StrEnum):
    """What of the answer is read."""

    OUTPUT = "output"
    """The final answer, which is JSON and nothing else, as the output of a typed agent is."""
    TEXT = "text"
    """The same, but a fence around the JSON is left out."""


class JsonSchemaOptions(StrictRecord, frozen=True, kw_only=True):
    """The schema that the answer has to fit."""

    schema: dict[str, Any]
    part: AnswerPart = AnswerPart.OUTPUT


class JsonSubsetOptions(StrictRecord, frozen=True, kw_only=True):
    """What the answer has to have."""

    value: Any = msgspec.UNSET
    """Absent: the reference answer of the case."""
    part: AnswerPart = AnswerPart.OUTPUT


class NumberOptions(StrictRecord, frozen=True, kw_only=True):
    """The number that is wanted, and how near."""

    value: float | None = None
    """Absent: the reference answer of the case."""
    abs_tol: float = 0.0
    rel_tol: float = 1e-9
    part: AnswerPart = AnswerPart.OUTPUT
    """With `text`, the last number in the answer is read."""
    path: str = ""
    """A JSON pointer to the number in a structured output; blank: the output is the number."""


class NotJson(Exception):
    """The answer is no JSON: the model's fault, not the scorer's."""


def read_answer(part: AnswerPart, outcome: Outcome) -> Any:
    """The structured answer.

    Raises:
        CannotScore: The answer is too long to be read.
        NotJson: The answer is no JSON.
    """
    is_output = part is AnswerPart.OUTPUT
    if is_output and outcome.is_output_typed:
        return msgspec.to_builtins(outcome.output)
    if len(outcome.text) > JSON_CHARS_MAX:
        raise CannotScore("the answer is too long to be read as JSON")
    try:
        return msgspec.json.decode(outcome.text if is_output else strip_fence(outcome.text))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        hint = "; `part: text` reads JSON in a fence, and a number in a sentence"
        raise NotJson(f"{error}{hint if is_output else ''}") from error


def _fail_unread(error: NotJson) -> Marks:
    """A failure, not an error: an answer that is no JSON is a wrong one."""
    return fail("answer_is_no_json", f"the answer is no JSON: {error}")


def _build_json_schema(options: JsonSchemaOptions, setup: ScorerSetup) -> Check:
    schema = JsonSchema(options.schema, what="the option `schema`")

    def check(outcome: Outcome) -> Marks:
        try:
            value = read_answer(options.part, outcome)
        except NotJson as error:
            return _fail_unread(error)
        found = schema.violations(value)
        reason = found[0] if found else ""
        return grade(not found, "schema_mismatch", reason, found[:EVIDENCE_ITEMS])

    return check


def _build_json_subset(options: JsonSubsetOptions, setup: ScorerSetup) -> Check:
    def check(outcome: Outcome) -> Marks:
        wanted = outcome.expected if options.value is msgspec.UNSET else options.value
        if wanted is None and options.value is msgspec.UNSET:
            raise CannotScore("the case has no reference answer; give one, or the option `value`")
        try:
            value = read_answer(options.part, outcome)
        except NotJson as error:
            return _fail_unread(error)
        place = find_mismatch(wanted, value)
        reason = f"the answer differs from what is expected at `{place}`"
        return grade(place is None, "subset_mismatch", reason, place)

    return check


def _build_number_close(options: NumberOptions, setup: ScorerSetup) -> Check:
    tolerances = (options.abs_tol, options.rel_tol)
    if not all(it >= 0 and math.isfinite(it) for it in tolerances):
        raise ValueError("`abs_tol` and `rel_tol` must be 0 or more")
    if options.path and not options.path.startswith("/"):
        raise ValueError("`path` must be a JSON pointer, such as `/total`")

    def check(outcome: Outcome) -> Marks:
        wanted = outcome.expected if options.value is None else options.value
        if not _is_number(wanted):
            problem = "the case has no reference answer that is a number; give one, or `value`"
            raise CannotScore(problem)
        try:
            found = _read_number(options, outcome)
        except NotJson as error:
            return _fail_unread(error)
        if found is None:
            return fail("number_missing", "the answer has no number there")
        is_close = math.isclose(found, wanted, abs_tol=options.abs_tol, rel_tol=options.rel_tol)
        return grade(is_close, "number_differs", f"the answer has {found}, not {wanted}", found)

    return check


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _read_number(options: NumberOptions, outcome: Outcome) -> float | None:
    if options.part is AnswerPart.TEXT:
        if len(outcome.text) > NUMBER_CHARS_MAX:
            raise CannotScore("the answer is too long to search it for numbers")
        found = _NUMBER.findall(outcome.text)
        return float(found[-1].replace(",", "")) if found else None
    value = read_answer(AnswerPart.OUTPUT, outcome)
    for name in options.path.split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value if _is_number(value) else None


KINDS = (
    ScorerKind(
        name="json_schema",
        family="structure",
        options=JsonSchemaOptions,
        build=_build_json_schema,
        about="The output, or the answer read as JSON, fits a JSON Schema.",
    ),
    ScorerKind(
        name="json_subset",
        family="structure",
        options=JsonSubsetOptions,
        build=_build_json_subset,
        about="The output has everything that the expected value has.",
    ),
    ScorerKind(
        name="number_close",
        family="structure",
        options=NumberOptions,
        build=_build_number_close,
        about="A number of the output, or the last one of the answer, is near the expected one.",
    ),
)
