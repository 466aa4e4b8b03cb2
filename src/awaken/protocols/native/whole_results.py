"""A run's whole result as one JSON document, for clients that do not read streams.

As with a stream, the run does not depend on the client: when the client disconnects, its request
is released, and the run continues.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.authoring.pydantic_models import encode_model
from awaken.contracts.errors import AwakenError, StoreUnavailable
from awaken.contracts.lifecycle import RunStatus, Termination, reason_text
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import Record, always
from awaken.contracts.runs.records import RunResult
from awaken.services.view import TenantView
from awaken.transport.asgi import (
    JSON,
    Bytes,
    Header,
    Receive,
    Scope,
    Send,
    as_json,
    wait_for_disconnect,
)
from awaken.transport.problems import (
    HttpError,
    hide_problem_namespace,
    native_refusal,
    to_http_error,
)

from .views import Accepted, TicketView, ticket_view

logger = logging.getLogger(__name__)

_FAILED = "The result of run '%s' could not be had"
_OUTAGE = f"{_FAILED}: %s"

_JSON = ("application/json", "application/*")
_STREAM = ("text/event-stream", "text/*")


class WholeResult(Record, frozen=True, kw_only=True):
    """The result of a run, or what it waits for."""

    run_id: str
    thread_id: str
    agent_id: str
    status: RunStatus
    text: str = always("")
    """The last answer of the run."""
    output: Any = None
    """The answer, decoded into the agent's output type; absent if it is only text."""
    termination: Termination | None = None
    termination_reason: str | None = None
    steps: int = always(0)
    usage: TokenUsage
    tickets: tuple[TicketView, ...] = always(())
    """The tickets that a waiting run waits for."""


def wants_json(accept: str) -> bool:
    """Whether a client prefers a document to a stream; `*/*` alone means the stream."""
    asked = accept.lower()
    if "application/" not in asked:
        return False
    wanted = dict(map(_parse_accept_part, asked.split(",")))
    document = max((wanted.get(kind, 0.0) for kind in _JSON), default=0.0)
    stream = max((wanted.get(kind, 0.0) for kind in _STREAM), default=0.0)
    return document > stream


class WholeResultReply:
    """Waits for a run and answers with its result, or with its id after a timeout."""

    def __init__(
        self, view: TenantView, run_id: str, thread_id: str, headers: Sequence[Header], wait_ms: int
    ) -> None:
        self._view = view
        self._run_id = run_id
        self._thread_id = thread_id
        self._headers = tuple(headers)
        self._wait_ms = wait_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client disconnects first."""
        waiting = asyncio.ensure_future(self._reply())
        leaving = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                await waiting.result()(scope, receive, send)
        finally:
            waiting.cancel()
            leaving.cancel()
            await asyncio.wait((waiting, leaving))

    async def _reply(self) -> Bytes:
        try:
            result = await self._view.wait(self._run_id, self._wait_ms)
            return Bytes(200, _encode(result), (JSON, *self._headers))
        except TimeoutError:
            accepted = Accepted(status="running", thread_id=self._thread_id, run_id=self._run_id)
            return as_json(accepted, 202, self._headers)
        except AwakenError as error:
            problem = hide_problem_namespace(to_http_error(error), self._view.tenant_id)
            if isinstance(error, StoreUnavailable):
                # Everyone who waits gets it in an outage: where it was raised says nothing.
                logger.warning(_OUTAGE, self._run_id, error)
            elif problem.status >= 500:
                logger.exception(_FAILED, self._run_id)
            problem.headers = (*problem.headers, *self._headers)
            return native_refusal(problem)
        except Exception:
            logger.exception(_FAILED, self._run_id)
            message = "Something went wrong here; the log has more."
            return native_refusal(HttpError(500, "internal_error", message, self._headers))


def _encode(result: RunResult) -> bytes:
    end = result.termination
    shown = WholeResult(
        run_id=result.run_id,
        thread_id=result.thread_id,
        agent_id=result.agent_id,
        status=result.status,
        text=result.text,
        # An answer that is only text is sent once.
        output=None if result.output is result.text else result.output,
        termination=end,
        termination_reason=None if end is None else reason_text(end),
        steps=result.steps,
        usage=result.usage,
        tickets=tuple(map(ticket_view, result.tickets)),
    )
    return msgspec.json.encode(shown, enc_hook=encode_model)


def _parse_accept_part(part: str) -> tuple[str, float]:
    kind, *parameters = (it.strip() for it in part.split(";"))
    weight = next((it[2:] for it in parameters if it.startswith("q=")), "1")
    try:
        return kind, float(weight)
    except ValueError:
        return kind, 0.0
