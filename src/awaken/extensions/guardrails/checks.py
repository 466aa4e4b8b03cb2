"""A rule that is ready to be used: what it finds in a text, and the text without it."""

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
from awaken.redaction import DETECTORS, Detector, Finding, custom_detector, detectors_named
from awaken.redaction.replacing import findings, redacted, redacted_value
from awaken.redaction.streaming import RedactedStream

from .config import SECTION, Action, CheckPlace, GuardrailsConfig, GuardRule

_WRITTEN = ("json", "xml", "yaml", "javascript", "csv", "markdown", "toml", "rtf")
"""How the media types end of files that are texts, besides `text/…`."""


@runtime_checkable
class Check(Protocol):
    """A check of one's own. Pure and quick: it is asked about every text."""

    kind: str

    def find(self, text: str) -> Iterable[Finding]:
        """Every place in the text that it objects to."""
        ...


class CheckFinding(Record, frozen=True, kw_only=True):
    """That a rule objects, and to what kinds of things; never the things themselves."""

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
        """Whether it only takes out what it can find in a text while that comes."""
        return self.rule.action is Action.REDACT and all(
            isinstance(it, Detector) and it.can_stream for it in self.detectors
        )

    def objection(self, text: str) -> CheckFinding | None:
        """What it objects to in a text."""
        kinds = dict.fromkeys(it.kind for it in findings(text, self.detectors))
        if not kinds:
            return None
        return CheckFinding(rule=self.rule.name, action=self.rule.action, kinds=tuple(kinds))


class Guards:
    """The rules of one agent, by place and by what they do."""

    __slots__ = ("_by_place",)

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._by_place = {
            place: tuple(it for it in guards if place in it.rule.on) for place in CheckPlace
        }

    def has(self, place: CheckPlace, *actions: Action) -> bool:
        """Whether any rule looks there, and does one of these things."""
        return any(not actions or it.rule.action in actions for it in self._by_place[place])

    def objection(self, place: CheckPlace, text: str, *actions: Action) -> CheckFinding | None:
        """What the rules object to that do one of these things; blocking comes first.

        What several rules want to have looked at is looked at once.
        """
        for action in (Action.BLOCK, Action.ASK):
            chosen = [it for it in self._by_place[place] if it.rule.action is action in actions]
            found = [it for guard in chosen if (it := guard.objection(text)) is not None]
            if found:
                kinds = dict.fromkeys(kind for it in found for kind in it.kinds)
                rules = ", ".join(it.rule for it in found)
                return CheckFinding(rule=rules, action=action, kinds=tuple(kinds))
        return None

    def redacted_value(self, place: CheckPlace, value: Any) -> Any:
        """JSON without what the redacting rules find."""
        for guard in self._redacting(place):
            value = redacted_value(value, guard.detectors)
        return value

    def redacted_blocks(
        self, place: CheckPlace, content: tuple[ContentBlock, ...]
    ) -> tuple[ContentBlock, ...]:
        """Content without what the redacting rules find.

        Reasoning that had to be changed loses its signature: no vendor would take it back. Texts
        that have something only together become one, where the first of them stands.
        """
        for guard in self._redacting(place):
            made = tuple(_redacted_block(it, guard.detectors) for it in content)
            texts = [index for index, it in enumerate(made) if isinstance(it, Text)]
            if len(texts) > 1 and findings(whole := text_of(made), guard.detectors):
                joined = Text(text=redacted(whole, guard.detectors))
                others = [it for it in made if not isinstance(it, Text)]
                made = (*others[: texts[0]], joined, *others[texts[0] :])
            content = content if made == content else made
        return content

    def streams(self, place: CheckPlace) -> list[RedactedStream] | None:
        """What a text of that place goes through while it comes.

        None: some rule blocks or asks, or can only look at a whole text.
        """
        guards = self._by_place[place]
        if not all(it.can_stream for it in guards):
            return None
        return [RedactedStream(it.detectors) for it in guards]

    def _redacting(self, place: CheckPlace) -> list[Guard]:
        return [it for it in self._by_place[place] if it.rule.action is Action.REDACT]


def compiled(config: GuardrailsConfig, checks: Mapping[str, Check], agent_id: str) -> Guards:
    """The rules of an agent, ready to be used.

    Raises:
        InvalidPluginConfig: A rule cannot be kept; it is named.
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
        problem = "it looks nowhere; name at least one place"
    elif not rule.detect and rule.pattern is None:
        problem = "it looks for nothing; give it `detect` or a `pattern`"
    elif rule.max_chars is not None and rule.pattern is None:
        problem = "`max_chars` says how long what a `pattern` finds is; it has none"
    elif rule.action is Action.REDACT and CheckPlace.TOOL_ARGUMENTS in rule.on:
        problem = "arguments cannot be redacted, the call would be another one; block or ask"
    elif rule.action is Action.ASK and CheckPlace.TOOL_RESULTS in rule.on:
        problem = "nobody can be asked about a result of a call that is over; block or redact"
    if problem:
        raise InvalidSpec(what="It", problem=problem)


def _detectors(rule: GuardRule, checks: Mapping[str, Check]) -> tuple[Any, ...]:
    own = [checks[name] for name in rule.detect if name in checks]
    known: tuple[Detector, ...] = detectors_named(it for it in rule.detect if it not in checks)
    if rule.pattern is None:
        return (*own, *known)
    return (*own, *known, custom_detector(rule.name, rule.pattern, rule.max_chars))


def _redacted_block(block: ContentBlock, detectors: tuple[Any, ...]) -> ContentBlock:
    match block:
        case Text(text=text):
            made = redacted(text, detectors)
            return block if made == text else Text(text=made)
        case Thinking(thinking=thinking):
            made = redacted(thinking, detectors)
            return block if made == thinking else Thinking(thinking=made)
        case ToolResultContent(content=content):
            inside = tuple(_redacted_block(it, detectors) for it in content)
            return block if inside == content else msgspec.structs.replace(block, content=inside)
    if (inside_file := text_in_file(block)) is not None:
        block = _with_text(block, inside_file, redacted(inside_file, detectors))
    bare = without_bytes(block)
    plain = msgspec.to_builtins(bare)
    found = redacted_value(plain, detectors)
    if found == plain:
        return block
    made_block: ContentBlock = msgspec.convert(found, ContentBlock)
    return made_block if bare is block else _with_bytes(made_block, block)


def without_bytes(block: ContentBlock) -> ContentBlock:
    """A block as it can be looked at: what pictures and files are made of is no text."""
    if isinstance(block, ToolResultContent):
        return msgspec.structs.replace(block, content=tuple(map(without_bytes, block.content)))
    source = getattr(block, "source", None)
    if not isinstance(source, Base64Source):
        return block
    return msgspec.structs.replace(block, source=msgspec.structs.replace(source, data=""))


def text_in_file(block: ContentBlock) -> str | None:
    """What a file says whose bytes are text by its own account."""
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


def given_checks(checks: object) -> tuple[Check, ...]:
    """The checks that somebody passed.

    Raises:
        InvalidSpec: One of them is none.
    """
    given = tuple(checks) if isinstance(checks, Iterable) else (checks,)
    for it in given:
        if not isinstance(it, Check):
            problem = f"a check has a `kind` and `find`, {type(it).__name__} has not"
            raise InvalidSpec(what="GuardrailsPlugin", problem=problem)
    return given


def clashing(checks: Iterable[Check]) -> str | None:
    """A name that two checks share, or that a known detector has."""
    seen: set[str] = {*DETECTORS, "secrets", "pii"}
    for check in checks:
        if check.kind in seen:
            return check.kind
        seen.add(check.kind)
    return None
