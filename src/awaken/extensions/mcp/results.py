"""Converts a server's result: what the model reads, and the metadata."""

from typing import Any

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ProgressStatus, ToolContext
from awaken.contracts.tools.tool import ToolDescriptor

from .config import McpLimits

_CUT = "… [cut]"
_BYTES = ("data", "blob")
_MESSAGE_CHARS = 500
_STEP = 0.01
_EXTRA_REPORTS = 500
"""Reports of one call that may be sooner than the minimum time between two."""
_Json = dict[str, Any]


def result_of(tool: ToolDescriptor, reply: _Json, limits: McpLimits) -> ToolResult:
    """The result of a call; plain text becomes a text, anything else stays structured.

    Text that only repeats the structured content is left out of what the model reads.

    Content over the limits is cut or omitted, and marked. Binary data is kept in the metadata: the
    model reads its description, not its bytes.
    """
    kept = _SizeBudget(limits)
    blocks = [kept.part(it) for it in reply.get("content") or ()]
    structured = {name: reply[name] for name in ("structuredContent",) if name in reply}
    text = "\n".join(it["text"] for it in blocks if it.get("type") == "text")
    result: _Json = {"content": blocks, **structured}
    metadata = {**tool.metadata, **{f"mcp.result.{name}": it for name, it in result.items()}}
    if reply.get("isError"):
        said, metadata["code"] = text or "it gave an error without a text", "mcp_tool_error"
        return ToolResult.error(tool.id, said, **metadata)
    if not structured and all(it.get("type") == "text" for it in blocks):
        return ToolResult(tool_name=tool.id, data=text, message=text, metadata=metadata)
    shown = [
        _readable(it) for it in _leave_out_repeats(blocks, structured.get("structuredContent"))
    ]
    if structured and not shown:
        return ToolResult(tool_name=tool.id, data=reply["structuredContent"], metadata=metadata)
    return ToolResult(tool_name=tool.id, data={**structured, "content": shown}, metadata=metadata)


def _leave_out_repeats(blocks: list[_Json], structured: Any) -> list[_Json]:
    """The blocks without texts that repeat the structured content, which the model reads once.

    Servers repeat it as text for clients that know no structured content: as one text, or, where a
    list is wrapped as `result`, as one text for each of its values.
    """
    texts = [it["text"] for it in blocks if it.get("type") == "text"]
    if structured is None or not texts:
        return blocks
    wrapped = structured.get("result") if isinstance(structured, dict) else None
    is_list = isinstance(wrapped, list) and len(wrapped) == len(texts)
    is_repeated = is_list and all(map(_says, texts, wrapped or ()))
    others = (structured,) if wrapped is None else (structured, wrapped)
    return [
        it
        for it in blocks
        if it.get("type") != "text"
        or not (is_repeated or any(_says(it["text"], value) for value in others))
    ]


def _says(text: str, value: Any) -> bool:
    """Whether a text is a value, or its JSON."""
    if text == value:
        return True
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, RecursionError):
        return False


def cut_contents(contents: list[_Json], limits: McpLimits) -> list[_Json]:
    """The contents of a resource as the model reads them, cut to the limits."""
    kept = _SizeBudget(limits)
    return [_readable(kept.part(it)) for it in contents]


class _SizeBudget:
    """The remaining size limits of one result."""

    def __init__(self, limits: McpLimits) -> None:
        self._chars, self._binary = limits.result_chars, limits.binary_chars

    def part(self, part: _Json) -> _Json:
        part = dict(part)
        if isinstance(part.get("resource"), dict):
            part["resource"] = self.part(part["resource"])
        if isinstance(part.get("text"), str):
            text, room = part["text"], self._chars
            part["text"] = replace_surrogates(text if len(text) <= room else text[:room] + _CUT)
            self._chars = max(0, room - len(text))
        for name in _BYTES:
            size = len(part.get(name) or "")
            if size > self._binary:
                part[name], part["omitted"] = "", f"{size} characters of base64"
            else:
                self._binary -= size
        return part


def _readable(part: _Json) -> _Json:
    """A part without its bytes, which a model cannot read as base64."""
    shown = {name: it for name, it in part.items() if name not in _BYTES}
    if isinstance(part.get("resource"), dict):
        shown["resource"] = _readable(part["resource"])
    size = sum(len(part.get(name) or "") for name in _BYTES)
    return {**shown, "omitted": f"{size} characters of base64"} if size else shown


class Reports:
    """Forwards progress reports, limited in frequency.

    A report is forwarded if enough time has passed since the last one, if it is a hundredth
    further, if its message differs, or if it is complete.
    """

    def __init__(self, limits: McpLimits, clock: Clock) -> None:
        self._clock, self._pause_ms = clock, limits.progress_ms
        self._extra = _EXTRA_REPORTS
        self._last: tuple[int, float, str | None] | None = None

    def report(
        self, context: ToolContext, progress: float, total: float | None, message: str | None
    ) -> None:
        """Forward a progress report to the run's events, unless it is too soon."""
        fraction = min(1.0, max(0.0, progress / total)) if total and total > 0 else 0.0
        message = replace_surrogates(message[:_MESSAGE_CHARS]) if message else None
        now = self._clock.monotonic_ms()
        if self._last is not None and now - self._last[0] < self._pause_ms:
            is_further = fraction >= 1.0 or abs(fraction - self._last[1]) >= _STEP
            if self._extra < 1 or not (is_further or message != self._last[2]):
                return
            self._extra -= 1
        self._last = (now, fraction, message)
        context.progress(ProgressStatus.RUNNING, message, fraction if total else None)
