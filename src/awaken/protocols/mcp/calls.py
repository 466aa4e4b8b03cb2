"""A tool call: queues input durably for an agent, and follows its run until it ends or waits.

A client that cancels its call cancels the run. A client that only disconnects does not: the run
continues, and its thread can be read. A stateless request over HTTP can only disconnect, so a
client that may want to stop a run has to use a task.
"""

import logging
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from awaken.contracts.errors import AlreadyDecided, AwakenError, InvalidInput, UnknownRun
from awaken.contracts.events import ErrorEvent, LoggedEvent, unwrap_event
from awaken.contracts.identity import Adapter
from awaken.contracts.messages.message import user
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.records import RunRecord, RunRequest, context_in
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.tracing import trace_in
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.services.event_streams import EventStream
from awaken.services.view import TenantView
from awaken.services.workflows import list_waits

from .callers import Context, OpenCall, caller_of, is_stateless
from .forms import decisions_of, form_of, select_askable
from .progress import ProgressReporter
from .results import result_of

logger = logging.getLogger(__name__)

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "What to say to the agent."},
        "thread_id": {"type": "string", "description": "The conversation to go on with."},
    },
    "required": ["message"],
    "additionalProperties": False,
}


def find_input_schema(agent: ResolvedAgent) -> dict[str, Any]:
    """Return what the tool of an agent takes: a workflow has parameters of its own.

    In place of them it takes a message, for its open run on a thread.
    """
    if agent.workflow is None:
        return INPUT_SCHEMA
    own = agent.workflow.arguments.schema
    said = "In place of all else: what to say to its open run on the thread."
    extra = {**INPUT_SCHEMA["properties"], "message": {"type": "string", "description": said}}
    return {**own, "properties": {**extra, **own.get("properties", {})}}


class Arguments(StrictRecord, frozen=True, kw_only=True):
    """The arguments of a tool that is an agent."""

    message: str
    thread_id: str | None = None


class AgentCall:
    """One tool call, from its arguments to its result."""

    def __init__(self, ctx: Context, params: types.CallToolRequestParams) -> None:
        self._ctx = ctx
        self._params = params
        self._view = caller_of(ctx).view
        self._progress = ProgressReporter(ctx, params.name)
        self._cursor: int | None = None
        self._given: Mapping[str, Any] = params.input_responses or {}
        """Answers that came with the call."""
        self._dismissed: set[str] = set()
        """Tickets that the user did not decide on."""

    async def begin(self) -> str:
        """Queue the input, or continue the run of an earlier round; returns the run.

        Raises:
            InvalidInput: The arguments do not fit.
            MCPError: The request names a run that is not its own.
        """
        if self._params.request_state is not None:
            return await self._resume_run(self._params.request_state)
        agent = await self._view.agent(self._params.name)
        arguments = _read_arguments(agent, self._params.arguments)
        context = context_in(self._params.meta)
        request = RunRequest(
            agent_id=self._params.name,
            thread_id=arguments.thread_id,
            messages=(user(arguments.message),),
            adapter=Adapter.MCP,
            trace=trace_in(self._params.meta),
            context=caller_of(self._ctx).context if context is None else context,
        )
        call = caller_of(self._ctx).link.open_call(str(self._ctx.request_id))
        # An interrupted call either has its run id or has no run: none is left without a cancel.
        with anyio.CancelScope(shield=True):
            receipt = await self._view.send(request, InputMode.QUEUE)
            call.run_id = receipt.run_id
            if call.is_cancelled:
                await self._view.cancel_run(receipt.run_id)
        return receipt.run_id

    async def finish(self, run_id: str) -> types.CallToolResult | types.InputRequiredResult:
        """Follow a run until it ends or waits, and ask the client's user for decisions."""
        while True:
            record = await self._watch_run(run_id)
            tickets = await open_tickets(self._view, record)
            forms = select_askable(
                self._ctx, [it for it in tickets if it.ticket_id not in self._dismissed]
            )
            if not forms:
                return result_of(record, tickets, await list_waits(self._view, record))
            answers, self._given = self._given, {}
            if not forms.keys() & answers.keys():
                if is_stateless(self._ctx):
                    return types.InputRequiredResult(
                        input_requests=build_input_requests(forms),
                        request_state=f"{run_id}@{self._cursor}",
                    )
                answers = await self._elicit_answers(record, forms)
            decisions = decisions_of(forms, answers)
            unfit = await decide(self._view, record, decisions)
            answered = {it.ticket_id for name, it in forms.items() if name in answers}
            self._dismissed |= (answered - decisions.keys()).union(unfit)

    async def _resume_run(self, state: str) -> str:
        # The state comes from the client: the view checks whether the caller may see the run.
        run_id, _, place = state.rpartition("@")
        record = None
        with suppress(UnknownRun):
            record = await caller_of(self._ctx).run(run_id)
        if record is None or record.agent_id != self._params.name or not place.isdecimal():
            why = {"reason": "invalid_request_state"}
            raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState", why)
        self._cursor = (await self._view.thread(record.thread_id)).event_seq
        return run_id

    async def _watch_run(self, run_id: str) -> RunRecord:
        stream = await self._view.follow_run(run_id, self._cursor)
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                for item in batch:
                    await self._progress.report(unwrap_event(item))
        # Earlier events of other clients on the thread are no reason to withdraw a form.
        self._cursor = (await self._view.thread(stream.thread_id)).event_seq
        return await self._view.run(run_id)

    async def _elicit_answers(
        self, record: RunRecord, forms: Mapping[str, Ticket]
    ) -> dict[str, Any]:
        """Ask the user; forms are withdrawn when the run resumes without an answer."""
        answers: dict[str, Any] = {}
        stream = await self._view.follow_thread(record.thread_id, self._cursor)
        async with anyio.create_task_group() as asking:
            asking.start_soon(_until_something_happens, stream, asking.cancel_scope)
            for name, ticket in forms.items():
                form, session = form_of(ticket), self._ctx.session
                try:
                    answers[name] = await session.elicit_form(
                        form.message, form.requested_schema, self._ctx.request_id
                    )
                except (MCPError, ValidationError) as error:
                    answers[name] = None
                    logger.warning("The client failed to show a form: %s", error)
            asking.cancel_scope.cancel()
        return answers


def build_input_requests(forms: Mapping[str, Ticket]) -> types.InputRequests:
    """Build the requests that show forms."""
    return {name: types.ElicitRequest(params=form_of(ticket)) for name, ticket in forms.items()}


async def decide(
    view: TenantView, record: RunRecord, decisions: Mapping[str, ToolCallResume]
) -> list[str]:
    """Store decisions on a run's tickets; returns the tickets whose answers do not fit."""
    if len(decisions) > 1:
        # An invalid decision must not prevent the others.
        with suppress(AlreadyDecided, InvalidInput):
            await view.decide(record, decisions)
            return []
    unfit = []
    for ticket_id, decision in decisions.items():
        try:
            await view.decide(record, {ticket_id: decision})
        except AlreadyDecided:
            logger.debug("Another client decided on ticket '%s' first", ticket_id)
        except InvalidInput:
            unfit.append(ticket_id)
    return unfit


async def open_tickets(view: TenantView, record: RunRecord) -> tuple[Ticket, ...]:
    """The tickets that a run waits for."""
    tickets = await view.tickets(record.thread_id)
    return tuple(ticket for ticket in tickets if ticket.run_id == record.run_id)


async def handle_cancelled(ctx: Context, params: types.CancelledNotificationParams) -> None:
    """Cancel the run of a call that the client has cancelled."""
    caller = caller_of(ctx)
    call = caller.link.calls.pop(str(params.request_id), OpenCall())
    call.is_cancelled = True
    if call.run_id is not None:
        await caller.view.cancel_run(call.run_id)


def forget(ctx: Context) -> None:
    """Remove an answered call: it can no longer be cancelled."""
    caller_of(ctx).link.calls.pop(str(ctx.request_id), None)


async def _until_something_happens(stream: EventStream, scope: anyio.CancelScope) -> None:
    with suppress(AwakenError):
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                if any(isinstance(it, LoggedEvent | ErrorEvent) for it in batch):
                    break
    scope.cancel()


def _read_arguments(agent: ResolvedAgent, arguments: dict[str, Any] | None) -> Arguments:
    arguments = arguments or {}
    if agent.workflow is not None:
        names = agent.workflow.arguments.names
        own = {name: it for name, it in arguments.items() if name in names}
        if own or "message" not in arguments:
            rest = {name: it for name, it in arguments.items() if name not in names}
            text = msgspec.json.encode(own).decode()
            arguments = {**rest, "message": rest.get("message", text)}
    try:
        given = msgspec.convert(arguments, Arguments)
    except msgspec.ValidationError as error:
        raise InvalidInput(what="arguments", problem=str(error)) from error
    if not given.message.strip():
        raise InvalidInput(what="arguments", problem="`message` must not be empty")
    return given
