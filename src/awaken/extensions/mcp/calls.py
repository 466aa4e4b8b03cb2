"""Calls a server's tools; holds a call while people answer its question, and bounds its time."""

import asyncio
import logging
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from awaken.authoring.results import as_output
from awaken.contracts.suspension.tickets import DecisionAction, SuspendTicket, ToolCallResume
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import ToolError, ToolOutput, ToolTimeout

from . import errors
from .catalog import McpTool
from .config import McpServer
from .exchange import Json, McpExchange, ServerQuestion
from .questions import DECLINED, QUESTIONS, OpenQuestion, answers_of, sample_model, ticket_of
from .results import Reports, result_of
from .server import ConnectedServer

logger = logging.getLogger(__name__)

DECLINED_TEXT = "The question was declined."
UI_S = 5.0
_PAUSE_S = 0.1


async def perform_call(
    server: ConnectedServer, tool: McpTool, arguments: Json, context: ToolContext
) -> ToolOutput:
    """Call a tool, or continue a call whose question people have answered.

    Raises:
        ToolError: The server is unavailable, does not answer, or its question was lost.
    """
    key = context.idempotency_key
    # Each call has its own entry: answers that arrive at the same time do not conflict.
    known = context.state.snapshot.get(QUESTIONS)
    question = known.get(key) if context.resume is not None else None
    if question is not None:
        context.state.update(QUESTIONS, (key, None))
    resume = context.resume
    is_lost = question is None or (question.is_held and key not in server.held)
    is_declined = resume is not None and resume.action is DecisionAction.CANCEL
    sentence = (resume.reason if resume is not None else None) or DECLINED_TEXT
    if is_declined and is_lost:
        # The server no longer waits for an answer; a new call would ignore the refusal.
        declined = ToolResult.success(tool.descriptor.id, None, sentence)
        return ToolOutput(result=declined, command=context.command)
    async with server.turns:
        outcome = await _Call(server, server.config, tool, arguments, context, question).outcome()
    if is_declined and isinstance(outcome, ToolResult):
        said = outcome.data if outcome.message is None else outcome.message
        text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
        outcome = replace(outcome, message=f"{sentence} The server says: {text}")
    return as_output(tool.descriptor.id, outcome, context)


@dataclass(frozen=True, slots=True)
class _Call:
    """One execution of one tool."""

    server: ConnectedServer
    config: McpServer
    tool: McpTool
    arguments: Json
    context: ToolContext
    question: OpenQuestion | None

    async def outcome(self) -> ToolResult | SuspendTicket:
        """Run the call; returns the result, or the ticket of a question."""
        exchange = self._first_exchange()
        for _ in range(self.config.limits.rounds + 1):
            reply = await self._wait_for_server(exchange)
            if isinstance(reply, ServerQuestion):
                ticket = self._hold(exchange, reply)
                if ticket is not None:
                    return ticket
                continue
            if reply.get("resultType") != "input_required":
                return await self._result(reply)
            answers, asked = await self._answer_requests(reply.get("inputRequests") or {})
            if asked:
                state = reply.get("requestState")
                return self._ticket(OpenQuestion(asked=asked, answers=answers, state=state))
            if not answers:
                await asyncio.sleep(_PAUSE_S)  # The server wants another request later.
            exchange = self._start_exchange(answers or None, reply.get("requestState"))
        raise errors.ServerFailed(f"MCP server '{self.config.name}' asks too often in one call")

    def _first_exchange(self) -> McpExchange:
        question, resume = self.question, self.context.resume
        if question is None or resume is None:
            return self._start_exchange(None, None)
        if question.is_held:
            return self._resume_held(question, resume)
        answers = answers_of(question, resume)
        return self._start_exchange({**question.answers, **answers}, question.state)

    def _resume_held(self, question: OpenQuestion, resume: ToolCallResume) -> McpExchange:
        exchange = self.server.held.pop(self.context.idempotency_key, None)
        if exchange is None or exchange.task.done():
            raise errors.QuestionLost(f"MCP server '{self.config.name}': {errors.LOST}")
        try:
            (answer,) = answers_of(question, resume).values()
        except errors.QuestionRefused:
            answer = DECLINED
        exchange.resume(self.context, answer)
        return exchange

    def _start_exchange(self, answers: Json | None, state: str | None) -> McpExchange:
        session, limits = self.server.get_session(self.tool), self.config.limits
        reports = Reports(limits, self.server.clock)

        async def call(exchange: McpExchange) -> Json:
            async def report(progress: float, total: float | None, message: str | None) -> None:
                reports.report(exchange.context, progress, total, message)

            return await session.call(self.tool.name, self.arguments, answers, state, report)

        return self.server.track_exchange(McpExchange(self.context, limits.rounds, call))

    async def _wait_for_server(self, exchange: McpExchange) -> Json | ServerQuestion:
        """Wait for the result or a question to people; the model answers samplings meanwhile."""
        server, patience_ms = self.server, self.config.call_ms
        try:
            async with asyncio.timeout(patience_ms / 1000):
                while (
                    isinstance(reply := await exchange.wait_for_reply(), ServerQuestion)
                    and reply.kind == "sampling"
                ):
                    try:
                        reply.answer(await self._sample(reply.params))
                    except errors.QuestionRefused as error:
                        reply.answer(error)
        except TimeoutError:
            await exchange.cancel()
            server.note_reply(is_answer=False)
            problem = f"no answer of MCP server '{self.config.name}' within {patience_ms} ms"
            raise ToolTimeout(problem) from None
        except asyncio.CancelledError:
            await exchange.cancel()
            raise
        except errors.ServerUnavailable:
            server.note_reply(is_answer=False)
            raise
        server.note_reply(is_answer=True)
        return reply

    async def _sample(self, params: Json) -> Json:
        if not self.config.sampling:
            raise errors.QuestionRefused("this server may not ask the model")
        return await sample_model(params, self.context, self.config.limits)

    def _hold(self, exchange: McpExchange, asked: ServerQuestion) -> SuspendTicket | None:
        """Hold the call and return its ticket; None if the question was refused."""
        held, held_max = self.server.held, self.config.limits.held_calls
        if len(held) >= held_max:
            asked.answer(errors.QuestionRefused(f"{held_max} calls wait for answers already"))
            return None
        try:
            ticket = self._ticket(OpenQuestion(is_held=True, asked={"": asked.params}))
        except errors.QuestionRefused as error:
            asked.answer(error)
            return None
        exchange.open, held[self.context.idempotency_key] = asked, exchange
        return ticket

    async def _answer_requests(self, requests: dict[str, Json]) -> tuple[Json, dict[str, Json]]:
        """Answer requests without people; returns the answers, and the questions to people."""
        answers: Json = {}
        asked: dict[str, Json] = {}
        for key, request in requests.items():
            params = request.get("params") or {}
            match request.get("method"):
                case "sampling/createMessage":
                    answers[key] = await self._sample(params)
                case "roots/list":
                    answers[key] = self.config.roots_result
                case "elicitation/create" if self.config.elicitation:
                    asked[key] = params
                case method:
                    problem = f"MCP server '{self.config.name}' may not ask {method}"
                    raise errors.QuestionRefused(problem)
        return answers, asked

    def _ticket(self, question: OpenQuestion) -> SuspendTicket:
        number = 1 if self.question is None else self.question.number + 1
        return ticket_of(replace(question, number=number), self.context, self.config)

    async def _result(self, reply: Json) -> ToolResult:
        tool, limits = self.tool, self.config.limits
        tool.check_output(reply)
        result = result_of(tool.descriptor, reply, limits)
        if tool.ui_uri is not None and not reply.get("isError"):
            result.metadata.update(await self._ui(tool.ui_uri))
        return result

    async def _ui(self, uri: str) -> dict[str, str]:
        """The UI resource of the tool's results, if it can be read."""
        found = {"mcp.ui.resourceUri": uri}
        try:
            async with asyncio.timeout(UI_S):
                (content, *_) = await self.server.get_session().read(uri)
            text = content.get("text") or content.get("blob") or ""
            if len(text) > self.config.limits.ui_chars:
                raise errors.ServerFailed(f"it exceeds {self.config.limits.ui_chars} characters")
        except (TimeoutError, ToolError, ValueError) as error:
            logger.warning("MCP server '%s': no UI for a result: %r", self.config.name, error)
            return found
        mime_type = content.get("mimeType") or "text/html"
        return {**found, "mcp.ui.content": text, "mcp.ui.mimeType": mime_type}
