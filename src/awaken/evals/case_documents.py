"""Cases as people and programs write them: the fixture of Awaken for Rust, and ours beyond it.

Rust's script events `chat_response`, `tool_call` and `error` are read into scripted turns, and
written as such events again whenever they can say all that the turn says.
"""

from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.worlds import ScriptedCall, ScriptedTurn
from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.record import StrictRecord

CHARS_PER_TOKEN = 4
"""By which Rust counts the tokens of a legacy text answer."""


class _ChatResponse(StrictRecord, frozen=True, kw_only=True, tag_field="kind", tag="chat_response"):
    content: str
    tokens: TokenUsage | None = None
    finish_reason: str | None = None


class _ToolCall(StrictRecord, frozen=True, kw_only=True, tag_field="kind", tag="tool_call"):
    id: str
    name: str
    arguments: Any = None
    tokens: TokenUsage | None = None


class _Error(StrictRecord, frozen=True, kw_only=True, tag_field="kind", tag="error"):
    error_type: str
    message: str = ""


class _Turn(StrictRecord, frozen=True, kw_only=True, tag_field="kind", tag="turn"):
    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: TokenUsage | None = None
    stop: str | None = None
    error: str | None = None
    retry_after_ms: int | None = None


_Event = _ChatResponse | _ToolCall | _Error | _Turn


def read_case(document: Any, what: str) -> Case:
    """Read a case from JSON values.

    Raises:
        InvalidDataset: It is not a case; names the field.
    """
    if not isinstance(document, dict):
        raise InvalidDataset(what=what, problem="a case is an object with fields")
    if "id" in document and isinstance(document["id"], str):
        what = f"{what}, case '{document['id']:.140}'"
    fields = dict(document)
    _take_legacy_answer(fields, what)
    _read_script(fields, what)
    turns = fields.get("continued_turns")
    if isinstance(turns, list):
        fields["continued_turns"] = [
            _read_turn(it, f"{what}, turn {no}") for no, it in enumerate(turns, 1)
        ]
    try:
        return msgspec.convert(fields, Case)
    except (msgspec.ValidationError, AwakenError, RecursionError) as error:
        raise InvalidDataset(what=what, problem=str(error).rstrip(".")) from error


def write_case(case: Case) -> dict[str, Any]:
    """Return a case as JSON values, which `read_case` reads as an equal case."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(case))
    _write_script(document, case.provider_script)
    for place, turn in enumerate(case.continued_turns):
        _write_script(document["continued_turns"][place], turn.provider_script)
    return document


def _read_turn(document: Any, what: str) -> Any:
    if not isinstance(document, dict):
        return document
    fields = dict(document)
    _read_script(fields, what)
    return fields


def _read_script(fields: dict[str, Any], what: str) -> None:
    script = fields.get("provider_script")
    if isinstance(script, list):
        fields["provider_script"] = [
            msgspec.to_builtins(_read_event(it, f"{what}, provider_script event {no}"))
            for no, it in enumerate(script, 1)
        ]


def _read_event(document: Any, what: str) -> ScriptedTurn:
    kind: Any = _Event if isinstance(document, dict) and "kind" in document else ScriptedTurn
    try:
        event = msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidDataset(what=what, problem=str(error).rstrip(".")) from error
    match event:
        case _ChatResponse():
            return ScriptedTurn(text=event.content, usage=event.tokens, stop=event.finish_reason)
        case _ToolCall():
            call = ScriptedCall(name=event.name, arguments=event.arguments, id=event.id)
            return ScriptedTurn(calls=(call,), usage=event.tokens)
        case _Error():
            return ScriptedTurn(error=event.error_type, text=event.message)
        case _Turn():
            return ScriptedTurn(
                **{name: getattr(event, name) for name in ScriptedTurn.__struct_fields__}
            )
        case _:
            turn: ScriptedTurn = event
            return turn


def _write_script(document: dict[str, Any], script: tuple[ScriptedTurn, ...]) -> None:
    if script:
        events = [_write_event(it) for it in script]
        document["provider_script"] = msgspec.json.decode(msgspec.json.encode(events))


def _write_event(turn: ScriptedTurn) -> _Event:
    """Return the event of Rust that says all of a turn, or else the turn itself."""
    match turn:
        case ScriptedTurn(reasoning="", calls=(), error=None, retry_after_ms=None):
            return _ChatResponse(content=turn.text, tokens=turn.usage, finish_reason=turn.stop)
        case ScriptedTurn(
            text="",
            reasoning="",
            stop=None,
            error=None,
            retry_after_ms=None,
            calls=(ScriptedCall(id=str()) as call,),
        ):
            return _ToolCall(
                id=call.id or "", name=call.name, arguments=call.arguments, tokens=turn.usage
            )
        case ScriptedTurn(
            reasoning="", calls=(), usage=None, stop=None, retry_after_ms=None, error=str() as error
        ):
            return _Error(error_type=error, message=turn.text)
        case _:
            fields = {name: getattr(turn, name) for name in ScriptedTurn.__struct_fields__}
            return _Turn(**fields)


def _take_legacy_answer(fields: dict[str, Any], what: str) -> None:
    """Make a script of the one answer that old fixtures of Rust have."""
    if "mock_response" not in fields:
        return
    answer = fields.pop("mock_response")
    kind = answer.get("kind") if isinstance(answer, dict) else answer
    if kind in (None, "none", "empty"):
        return
    if kind == "error":
        fields.setdefault("provider_script", [answer])
        return
    text = next((answer[it] for it in ("text", "content", "value") if it in answer), None)
    if kind != "text" or not isinstance(text, str):
        problem = "`mock_response` is a legacy field: give `provider_script` instead"
        raise InvalidDataset(what=what, problem=problem)
    if not fields.get("provider_script"):
        asked = fields.get("user_input")
        prompt = -(-len(asked if isinstance(asked, str) else "") // CHARS_PER_TOKEN)
        count = -(-len(text) // CHARS_PER_TOKEN)
        tokens = {
            "prompt_tokens": prompt,
            "completion_tokens": count,
            "total_tokens": prompt + count,
        }
        event = {"kind": "chat_response", "content": text, "tokens": tokens}
        fields["provider_script"] = [event]
