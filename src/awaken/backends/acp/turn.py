"""One run: initialize the agent, open a session, prompt it, and wait until it stops."""

import asyncio
import logging
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from awaken.contracts.backends import errors as errors
from awaken.contracts.backends import requests as asked
from awaken.contracts.record import Record
from awaken.contracts.tracing import CURRENT_TRACE

from .config import Settings
from .peer import Peer
from .permissions import AskedCall, PermissionQuestions, PermissionRequest
from .process import AgentProcess
from .progress import SessionUpdate, TurnProgress
from .prompts import Block, PromptAbilities, prompt_of
from .wire import AcpWire, load_library

logger = logging.getLogger(__name__)

Request = asked.BackendRootRunRequest | asked.BackendDelegateRunRequest

VERSION = 1
_SHOWN_CHARS = 500
TIMED_OUT = "timed_out"
_INVALID_PARAMS = -32602
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_NOTHING_LENT = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


class _Abilities(Record, frozen=True, kw_only=True, rename="camel"):
    load_session: bool = False
    prompt_capabilities: PromptAbilities | None = None


class _Greeting(Record, frozen=True, kw_only=True, rename="camel"):
    protocol_version: int
    agent_capabilities: _Abilities | None = None


class _Session(Record, frozen=True, kw_only=True, rename="camel"):
    session_id: _Name


class _Stop(Record, frozen=True, kw_only=True, rename="camel"):
    stop_reason: _Name


class AcpTurn:
    """Runs one session with one agent process."""

    def __init__(self, request: Request, settings: Settings, process: AgentProcess) -> None:
        control, deadline = request.control, settings.clock.now_ms() + settings.timeout_ms
        self._request = request
        self._settings = settings
        self._wire = AcpWire(process, settings.limits)
        self._process = process
        self._progress = TurnProgress(
            request.sink, request.run_identity.run_id, settings.limits, process.redact_value
        )
        self._questions = PermissionQuestions(control.decisions, deadline, self._wire.fail)
        self._peer = Peer(process, self._wire, self._handle)
        self._session_id: str | None = None
        """The session, once a prompt was sent to it."""

    @property
    def text(self) -> str:
        """The agent's answer so far."""
        return self._progress.text

    async def run_until_stop(self, known: asked.RemoteTarget | None) -> str:
        """Run the session and return the protocol's stop reason, or `TIMED_OUT`.

        On a cancellation the agent is notified and gets `cancel_ms` to end its turn.

        Raises:
            ExecutionBackendError: The agent failed, or broke the protocol or a limit.
        """
        session_task = asyncio.create_task(self._run_session(known))
        try:
            return await self._wait_for_stop(session_task)
        except asyncio.CancelledError:
            await self._cancel_prompt(session_task)
            raise
        finally:
            self._progress.close()
            self._questions.close()
            session_task.cancel()
            try:
                await asyncio.gather(session_task, return_exceptions=True)
            finally:
                await self._peer.close()

    async def _wait_for_stop(self, session_task: "asyncio.Task[str]") -> str:
        signal, broken = self._request.control.cancellation, self._wire.broken
        cancel_wait = asyncio.ensure_future(_never() if signal is None else signal.wait())
        watched: set[asyncio.Future[Any]] = {session_task, broken, cancel_wait}
        try:
            await asyncio.wait(
                watched,
                timeout=self._settings.timeout_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if session_task.done():
                return session_task.result()
            if broken.done():
                raise broken.result()
            if not cancel_wait.done():
                return TIMED_OUT
            await self._cancel_prompt(session_task)
            return "cancelled"
        finally:
            cancel_wait.cancel()

    async def _cancel_prompt(self, session_task: "asyncio.Task[str]") -> None:
        """Cancel the prompt and wait until the agent ends its turn; an exited agent is no error."""
        self._questions.close()
        if self._session_id is None:
            return
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(self._settings.limits.cancel_ms / 1000):
                await self._peer.notify("session/cancel", {"sessionId": self._session_id})
                await asyncio.wait({session_task})

    async def _run_session(self, known: asked.RemoteTarget | None) -> str:
        hello = {"protocolVersion": VERSION, "clientCapabilities": _NOTHING_LENT}
        greeting = await self._peer.ask("initialize", hello, _Greeting)
        if greeting.protocol_version != VERSION:
            problem = f"the coding agent speaks version {greeting.protocol_version}, not {VERSION}"
            raise errors.RemoteUnsupported(problem=problem)
        abilities = greeting.agent_capabilities or _Abilities()
        said = self._request.new_messages or self._request.messages
        prompt = prompt_of(said, abilities.prompt_capabilities or PromptAbilities())
        earlier = known.context_id if known is not None and abilities.load_session else None
        session_id = await self._open_session(earlier)
        await self._save(session_id, None)
        return await self._prompt(session_id, prompt)

    async def _open_session(self, earlier: str | None) -> str:
        place = {"cwd": self._settings.program.cwd, "mcpServers": []}
        if earlier is not None:
            try:
                await self._peer.ask("session/load", {**place, "sessionId": earlier}, object)
            except errors.RemoteError as error:
                # The session was never prompted (a run whose session was prompted has failed
                # before): an agent need not keep such sessions, and a new one is as good.
                logger.warning(
                    "Session '%s' is not loaded; a new one is opened: %s", earlier, error
                )
            else:
                return earlier
        return (await self._peer.ask("session/new", place, _Session)).session_id

    async def _prompt(self, session_id: str, prompt: list[Block]) -> str:
        # Saved before it is sent: a prompt that may have arrived is never sent again.
        await self._save(session_id, self._request.run_identity.run_id)
        self._session_id = session_id
        self._progress.begin(session_id)
        params: dict[str, Any] = {"sessionId": session_id, "prompt": prompt}
        trace, meta = CURRENT_TRACE.get(), dict[str, Any]()
        if trace is not None:
            meta |= trace.headers
        if self._request.context is not None:
            # Where awaken's own agents over ACP read it; ACP lets programs ignore `_meta`.
            meta["context"] = self._request.context
        if meta:
            params["_meta"] = meta
        return (await self._peer.ask("session/prompt", params, _Stop)).stop_reason

    async def _save(self, session_id: str, message_id: str | None) -> None:
        if self._request.checkpoint is None:
            return
        state = asked.RemoteTarget(
            run_id=self._request.run_identity.run_id,
            context_id=session_id,
            message_id=message_id,
            last_state="opened" if message_id is None else "prompted",
            updated_at_ms=self._settings.clock.now_ms(),
        )
        await self._request.checkpoint.save(self._settings.program.target, state)

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:  # noqa: FBT001
        """Handle updates and permission requests; all other requests are refused."""
        if method == "session/update":
            return self._handle_update(params)
        if is_notification:
            return None
        refusal = load_library().RequestError
        if method != "session/request_permission":
            raise refusal.method_not_found(method)
        try:
            wanted = msgspec.convert(params, PermissionRequest)
            shown = self._process.redact_value(msgspec.to_builtins(wanted.tool_call))
            wanted = msgspec.structs.replace(wanted, tool_call=msgspec.convert(shown, AskedCall))
        except (msgspec.ValidationError, RecursionError) as error:
            raise refusal(_INVALID_PARAMS, str(error)) from error
        if wanted.session_id != self._session_id:
            raise refusal(_INVALID_PARAMS, "No such session is prompted.")
        if len(msgspec.json.encode(wanted)) > self._settings.limits.question_bytes:
            raise refusal(_INVALID_PARAMS, "The request is too large to be shown.")
        return await self._questions.answer(wanted)

    def _handle_update(self, params: Any) -> None:
        try:
            self._progress.apply_update(msgspec.convert(params, SessionUpdate))
        except msgspec.ValidationError as error:
            said = str(error)[:_SHOWN_CHARS]
            self._wire.fail(errors.RemoteMalformed(problem=f"a session update: {said}"))
        except errors.RemoteError as error:
            self._wire.fail(error)


async def _never() -> None:
    await asyncio.Event().wait()
