"""The current trace and the current run, passed on by context variables, not by arguments."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from .identity import RunIdentity
from .record import Record


class TraceContext(Record, frozen=True, kw_only=True):
    """A caller's trace, in the form of the W3C headers."""

    traceparent: str
    tracestate: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that propagate the trace."""
        more = {"tracestate": self.tracestate} if self.tracestate else {}
        return {"traceparent": self.traceparent, **more}


CURRENT_TRACE: ContextVar[TraceContext | None] = ContextVar("awaken_trace", default=None)
"""The trace of outgoing requests. Set by instruments, otherwise by the run itself."""

CURRENT_RUN: ContextVar[RunIdentity | None] = ContextVar("awaken_run", default=None)
"""The run whose code is executing; log records name it."""


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE_MAX = 512


def trace_of(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """The trace that a caller's headers name; None if they are absent or malformed."""
    given = (traceparent or "").strip()
    if given.startswith("ff") or not _TRACEPARENT.fullmatch(given[:55]):
        return None
    state = (tracestate or "").strip()
    is_kept = 0 < len(state) <= _TRACESTATE_MAX and state.isascii() and state.isprintable()
    return TraceContext(traceparent=given[:55], tracestate=state if is_kept else None)


def trace_in(meta: Any) -> TraceContext | None:
    """The trace in the `_meta` of a message, as MCP and ACP pass it."""
    if not isinstance(meta, Mapping):
        return None
    given = (meta.get(name) for name in ("traceparent", "tracestate"))
    parent, state = (it if isinstance(it, str) else None for it in given)
    return trace_of(parent, state)
