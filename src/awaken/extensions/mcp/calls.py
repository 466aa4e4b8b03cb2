"""Calls of a server's tools: sent, answered, held while people are asked, and given up in time."""

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
from .exchange import Asked, Json, McpExchange
from .questions import DECLINED, QUESTIONS, OpenQuestion, answers_of, sampled, ticket_of
from .results import Reports, result_of
from .server import ConnectedServer

logger = logging.getLogger(__name__)

TOLD_NO = "The question was declined."
UI_S = 5.0
_PAUSE_S = 0.1


async def performed(
    server: ConnectedServer, tool: McpTool, arguments: Json, context: ToolContext
) -> ToolOutput:
    """Call a tool, or go on with a call that people were asked about.

    Raises:
        ToolError: The server is not there, does not answer, or what it asked got lost.
    """
    key = context.idempotency_key
    # Its own entry, which no other call changes: answers that come together do not conflict.
    known = context.state.snapshot.get(QUESTIONS)
    question = known.get(key) if context.resume is not None else None
    if question is not None:
        context.state.update(QUESTIONS, (key, None))
    resume = context.resume
    is_lost = question is None or (question.is_held and key not in server.held)
    is_declined = resume is not None and resume.action is DecisionAction.CANCEL
    sentence = (resume.reason if resume is not None else None) or TOLD_NO
    if is_declined and is_lost:
        # The server waits for no answer any more; a new call would be made in spite of the no.
        told = ToolResult.success(tool.descriptor.id, None, sentence)
        return ToolOutput(result=told, command=context.command)
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
        """The result, or the ticket of a question."""
        exchange = self._first()
        for _ in range(self.config.limits.rounds + 1):
            told = await self._heard(exchange)
            if isinstance(told, Asked):
                ticket = self._held(exchange, told)
                if ticket is not None:
                    return ticket
                continue
            if told.get("resultType") != "input_required":
                return await self._result(told)
            answers, asked = await self._answered(told.get("inputRequests") or {})
            if asked:
                state = told.get("requestState")
                return self._ticket(OpenQuestion(asked=asked, answers=answers, state=state))
            if not answers:
                await asyncio.sleep(_PAUSE_S)  # The server wants to be asked again later.
            exchange = self._begun(answers or None, told.get("requestState"))
        raise errors.ServerFailed(f"MCP server '{self.config.name}' asks too often in one call")

    def _first(self) -> McpExchange:
        question, resume = self.question, self.context.resume
        if question is None or resume is None:
            return self._begun(None, None)
        if question.is_held:
            return self._taken(question, resume)
        answers = answers_of(question, resume)
        return self._begun({**question.answers, **answers}, question.state)

    def _taken(self, question: OpenQuestion, resume: ToolCallResume) -> McpExchange:
        exchange = self.server.held.pop(self.context.idempotency_key, None)
        if exchange is None or exchange.task.done():
            raise errors.QuestionLost(f"MCP server '{self.config.name}': {errors.LOST}")
        try:
            (answer,) = answers_of(question, resume).values()
        except errors.QuestionRefused:
            answer = DECLINED
        exchange.go_on(self.context, answer)
        return exchange

    def _begun(self, answers: Json | None, state: str | None) -> McpExchange:
        session, limits = self.server.in_use(self.tool), self.config.limits
        reports = Reports(limits, self.server.clock)

        async def call(exchange: McpExchange) -> Json:
            async def report(progress: float, total: float | None, message: str | None) -> None:
                reports.report(exchange.context, progress, total, message)

            return await session.call(self.tool.name, self.arguments, answers, state, report)

        return self.server.began(McpExchange(self.context, limits.rounds, call))

    async def _heard(self, exchange: McpExchange) -> Json | Asked:
        """What the server says next to people or to us; the model is asked by the way."""
        server, patience_ms = self.server, self.config.call_ms
        try:
            async with asyncio.timeout(patience_ms / 1000):
                while isinstance(told := await exchange.told(), Asked) and told.kind == "sampling":
                    try:
                        told.answer(await self._sampled(told.params))
                    except errors.QuestionRefused as error:
                        told.answer(error)
        except TimeoutError:
            await exchange.give_up()
            server.heard(is_answer=False)
            problem = f"no answer of MCP server '{self.config.name}' within {patience_ms} ms"
            raise ToolTimeout(problem) from None
        except asyncio.CancelledError:
            await exchange.give_up()
            raise
        except errors.ServerUnavailable:
            server.heard(is_answer=False)
            raise
        server.heard(is_answer=True)
        return told

    async def _sampled(self, params: Json) -> Json:
        if not self.config.sampling:
            raise errors.QuestionRefused("this server may not ask the model")
        return await sampled(params, self.context, self.config.limits)

    def _held(self, exchange: McpExchange, asked: Asked) -> SuspendTicket | None:
        """A ticket, while the call is held; None when the server was told no."""
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

    async def _answered(self, requests: dict[str, Json]) -> tuple[Json, dict[str, Json]]:
        """What is answered without people, and what they are asked."""
        answers: Json = {}
        asked: dict[str, Json] = {}
        for key, request in requests.items():
            params = request.get("params") or {}
            match request.get("method"):
                case "sampling/createMessage":
                    answers[key] = await self._sampled(params)
                case "roots/list":
                    answers[key] = self.config.told_roots
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
        """The UI resource that goes with the tool's results, if it can be had."""
        found = {"mcp.ui.resourceUri": uri}
        try:
            async with asyncio.timeout(UI_S):
                (content, *_) = await self.server.in_use().read(uri)
            text = content.get("text") or content.get("blob") or ""
            if len(text) > self.config.limits.ui_chars:
                raise errors.ServerFailed(f"it exceeds {self.config.limits.ui_chars} characters")
        except (TimeoutError, ToolError, ValueError) as error:
            logger.warning("MCP server '%s': no UI for a result: %r", self.config.name, error)
            return found
        mime_type = content.get("mimeType") or "text/html"
        return {**found, "mcp.ui.content": text, "mcp.ui.mimeType": mime_type}
