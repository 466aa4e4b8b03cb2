"""Compiled rules: they find and redact parts of a text."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from awaken.contracts.errors import InvalidPluginConfig, InvalidSpec
from awaken.contracts.messages.content import (
    Base64Source,
    ContentBlock,
    Text,
    Thinking,
    ToolResultContent,
    text_of,
)
from awaken.contracts.record import Record
from awaken.redaction.detectors import (
    DETECTORS,
    Detector,
    Finding,
    build_detector,
    select_detectors,
)
from awaken.redaction.replacement import find_all, redact_text, redact_value
from awaken.redaction.streaming import RedactedStream

from .config import SECTION, Action, CheckPlace, GuardrailsConfig, GuardRule

_WRITTEN = ("json", "xml", "yaml", "javascript", "csv", "markdown", "toml", "rtf")
"""The endings of media types of text files, besides `text/…`."""


@runtime_checkable
class Check(Protocol):
    """A check of the application. It must be pure and fast: it is called for every text."""

    kind: str

    def find(self, text: str) -> Iterable[Finding]:
        """Every part of the text that it objects to."""
        ...


class CheckFinding(Record, frozen=True, kw_only=True):
    """Which rule objects, and to which kinds of content; never the content itself."""

    rule: str
    action: Action
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """A rule with its detectors."""

    rule: GuardRule
    detectors: tuple[Any, ...]

    @property
    def can_stream(self) -> bool:
        """Whether it only redacts, with detectors that work on a stream."""
        return self.rule.action is Action.REDACT and all(
            isinstance(it, Detector) and it.can_stream for it in self.detectors
        )

    def find_objection(self, text: str) -> CheckFinding | None:
        """The rule's objection to a text, if it has one."""
        kinds = dict.fromkeys(it.kind for it in find_all(text, self.detectors))
        if not kinds:
            return None
        return CheckFinding(rule=self.rule.name, action=self.rule.action, kinds=tuple(kinds))


class Guards:
    """The rules of one agent, by place and action."""

    __slots__ = ("_by_place",)

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._by_place = {
            place: tuple(it for it in guards if place in it.rule.on) for place in CheckPlace
        }

    def has(self, place: CheckPlace, *actions: Action) -> bool:
        """Whether any rule checks that place, with one of these actions if any are given."""
        return any(not actions or it.rule.action in actions for it in self._by_place[place])

    def find_objection(self, place: CheckPlace, text: str, *actions: Action) -> CheckFinding | None:
        """The objection of the rules with one of these actions; blocking rules come first.

        The objections of several rules become one, so that a person is asked once.
        """
        for action in (Action.BLOCK, Action.ASK):
            chosen = [it for it in self._by_place[place] if it.rule.action is action in actions]
            found = [it for guard in chosen if (it := guard.find_objection(text)) is not None]
            if found:
                kinds = dict.fromkeys(kind for it in found for kind in it.kinds)
                rules = ", ".join(it.rule for it in found)
                return CheckFinding(rule=rules, action=action, kinds=tuple(kinds))
        return None

    def list_judges(self, place: CheckPlace) -> tuple[GuardRule, ...]:
        """The rules by which an agent judges the texts of that place."""
        return tuple(it.rule for it in self._by_place[place] if it.rule.judge_id is not None)

    def find_review(self, place: CheckPlace, text: str, *actions: Action) -> CheckFinding | None:
        """Like `find_objection`; a text that an agent has to judge needs a review as well."""
        found = self.find_objection(place, text, *actions)
        if found is None and text.strip() and (judges := self.list_judges(place)):
            rules = ", ".join(it.name for it in judges)
            return CheckFinding(rule=rules, action=Action.ASK, kinds=())
        return found

    def redact_value(self, place: CheckPlace, value: Any) -> Any:
        """Redact a JSON value."""
        for guard in self._guards_that_redact(place):
            value = redact_value(value, guard.detectors)
        return value

    def redact_blocks(
        self, place: CheckPlace, content: tuple[ContentBlock, ...]
    ) -> tuple[ContentBlock, ...]:
        """Redact content.

        Changed reasoning loses its signature: no vendor would accept it. Texts with a finding that
        spans several of them are joined, at the place of the first one.
        """
        for guard in self._guards_that_redact(place):
            made = tuple(_redact_block(it, guard.detectors) for it in content)
            texts = [index for index, it in enumerate(made) if isinstance(it, Text)]
            if len(texts) > 1 and find_all(whole := text_of(made), guard.detectors):
                joined = Text(text=redact_text(whole, guard.detectors))
                others = [it for it in made if not isinstance(it, Text)]
                made = (*others[: texts[0]], joined, *others[texts[0] :])
            content = content if made == content else made
        return content

    def streams(self, place: CheckPlace) -> list[RedactedStream] | None:
        """The redacting streams for a text of that place.

        None if some rule blocks or asks, or can only check a whole text.
        """
        guards = self._by_place[place]
        if not all(it.can_stream for it in guards):
            return None
        return [RedactedStream(it.detectors) for it in guards]

    def _guards_that_redact(self, place: CheckPlace) -> list[Guard]:
        return [it for it in self._by_place[place] if it.rule.action is Action.REDACT]


def compile_rules(config: GuardrailsConfig, checks: Mapping[str, Check], agent_id: str) -> Guards:
    """Compile the rules of an agent.

    Raises:
        InvalidPluginConfig: A rule is invalid; the message names it.
    """
    names = [rule.name for rule in config.rules]
    guards = []
    for rule in config.rules:
        try:
            _check_rule(rule, names)
            guards.append(Guard(rule, _detectors(rule, checks)))
        except InvalidSpec as error:
            problem = f"rule '{rule.name}': {error}"
            raise InvalidPluginConfig(
                section=SECTION, agent_id=agent_id, problem=problem
            ) from error
    return Guards(guards)


def _check_rule(rule: GuardRule, names: Sequence[str]) -> None:
    problem = ""
    if not rule.name.strip() or names.count(rule.name) > 1:
        problem = "its name is blank, or another rule has it"
    elif not rule.on:
        problem = "it checks no place; name at least one in `on`"
    elif rule.judge_id is not None:
        problem = _find_judge_problem(rule)
    elif not rule.detect and rule.pattern is None:
        problem = "it detects nothing; give it `detect`, a `pattern` or an `agent`"
    elif rule.max_chars is not None and rule.pattern is None:
        problem = "`max_chars` says how long what a `pattern` finds is; it has none"
    elif rule.action is Action.REDACT and CheckPlace.TOOL_ARGUMENTS in rule.on:
        problem = "arguments cannot be redacted, the call would be another one; block or ask"
    elif rule.action is Action.ASK and CheckPlace.TOOL_RESULTS in rule.on:
        problem = "no one can be asked about a result of a finished call; block or redact"
    if problem:
        raise InvalidSpec(what="It", problem=problem)


def _find_judge_problem(rule: GuardRule) -> str:
    if rule.detect or rule.pattern is not None:
        return "an agent judges every text; write another rule for `detect` and `pattern`"
    if not {*rule.on} <= {CheckPlace.INPUT, CheckPlace.OUTPUT}:
        return "an agent judges `input` and `output` only"
    if rule.action is Action.REDACT:
        return "an agent cannot redact; its `action` is `block` or `ask`"
    return ""


def _detectors(rule: GuardRule, checks: Mapping[str, Check]) -> tuple[Any, ...]:
    own = [checks[name] for name in rule.detect if name in checks]
    known: tuple[Detector, ...] = select_detectors(it for it in rule.detect if it not in checks)
    if rule.pattern is None:
        return (*own, *known)
    return (*own, *known, build_detector(rule.name, rule.pattern, rule.max_chars))


def _redact_block(block: ContentBlock, detectors: tuple[Any, ...]) -> ContentBlock:
    match block:
        case Text(text=text):
            made = redact_text(text, detectors)
            return block if made == text else Text(text=made)
        case Thinking(thinking=thinking):
            made = redact_text(thinking, detectors)
            return block if made == thinking else Thinking(thinking=made)
        case ToolResultContent(content=content):
            inside = tuple(_redact_block(it, detectors) for it in content)
            return block if inside == content else msgspec.structs.replace(block, content=inside)
    if (inside_file := text_in_file(block)) is not None:
        block = _with_text(block, inside_file, redact_text(inside_file, detectors))
    bare = strip_bytes(block)
    plain = msgspec.to_builtins(bare)
    found = redact_value(plain, detectors)
    if found == plain:
        return block
    made_block: ContentBlock = msgspec.convert(found, ContentBlock)
    return made_block if bare is block else _with_bytes(made_block, block)


def strip_bytes(block: ContentBlock) -> ContentBlock:
    """A block without the bytes of images and files, which are not text."""
    if isinstance(block, ToolResultContent):
        return msgspec.structs.replace(block, content=tuple(map(strip_bytes, block.content)))
    source = getattr(block, "source", None)
    if not isinstance(source, Base64Source):
        return block
    return msgspec.structs.replace(block, source=msgspec.structs.replace(source, data=""))


def text_in_file(block: ContentBlock) -> str | None:
    """The text of a file whose media type is text."""
    source = getattr(block, "source", None)
    if not isinstance(source, Base64Source):
        return None
    kind = source.media_type.partition(";")[0].strip().lower()
    if not kind.startswith("text/") and not kind.endswith(_WRITTEN):
        return None
    try:
        return base64.b64decode(source.data).decode("utf-8", "replace")
    except ValueError:
        return None


def _with_text(block: Any, before: str, text: str) -> ContentBlock:
    if text == before:
        whole: ContentBlock = block
        return whole
    data = base64.b64encode(text.encode()).decode()
    made: ContentBlock = msgspec.structs.replace(
        block, source=msgspec.structs.replace(block.source, data=data)
    )
    return made


def _with_bytes(block: Any, whole: Any) -> ContentBlock:
    source = msgspec.structs.replace(block.source, data=whole.source.data)
    made: ContentBlock = msgspec.structs.replace(block, source=source)
    return made


def validate_checks(checks: object) -> tuple[Check, ...]:
    """Validate the checks of the application.

    Raises:
        InvalidSpec: One of them is not a check.
    """
    given = tuple(checks) if isinstance(checks, Iterable) else (checks,)
    for it in given:
        if not isinstance(it, Check):
            problem = f"a check has a `kind` and `find`, {type(it).__name__} has not"
            raise InvalidSpec(what="GuardrailsPlugin", problem=problem)
    return given


def find_clash(checks: Iterable[Check]) -> str | None:
    """A kind that two checks share, or that a built-in detector has."""
    seen: set[str] = {*DETECTORS, "secrets", "pii"}
    for check in checks:
        if check.kind in seen:
            return check.kind
        seen.add(check.kind)
    return None
