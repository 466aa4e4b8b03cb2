"""One run: greet the agent, open a session, prompt it, and hear it out."""

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
from .wire import AcpWire, library

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
    """Leads one conversation with one process."""

    def __init__(self, request: Request, settings: Settings, process: AgentProcess) -> None:
        control, deadline = request.control, settings.clock.now_ms() + settings.timeout_ms
        self._request = request
        self._settings = settings
        self._wire = AcpWire(process, settings.limits)
        self._process = process
        self._progress = TurnProgress(
            request.sink, request.run_identity.run_id, settings.limits, process.redacted_value
        )
        self._questions = PermissionQuestions(control.decisions, deadline, self._wire.fail)
        self._peer = Peer(process, self._wire, self._handle)
        self._session_id: str | None = None
        """The session, once it is prompted."""

    @property
    def text(self) -> str:
        """What the agent has answered so far."""
        return self._progress.text

    async def stop_reason(self, known: asked.RemoteTarget | None) -> str:
        """Why the agent stopped, in the protocol's words, or `TIMED_OUT`.

        Whoever cancels is heeded: the agent is told, and may take a while to end its turn.

        Raises:
            ExecutionBackendError: It did not come to an end of its own.
        """
        talking = asyncio.create_task(self._talk(known))
        try:
            return await self._watched(talking)
        except asyncio.CancelledError:
            await self._give_up(talking)
            raise
        finally:
            self._progress.close()
            self._questions.close()
            talking.cancel()
            try:
                await asyncio.gather(talking, return_exceptions=True)
            finally:
                await self._peer.close()

    async def _watched(self, talking: "asyncio.Task[str]") -> str:
        signal, broken = self._request.control.cancellation, self._wire.broken
        cancelling = asyncio.ensure_future(_never() if signal is None else signal.wait())
        watched: set[asyncio.Future[Any]] = {talking, broken, cancelling}
        try:
            await asyncio.wait(
                watched,
                timeout=self._settings.timeout_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if talking.done():
                return talking.result()
            if broken.done():
                raise broken.result()
            if not cancelling.done():
                return TIMED_OUT
            await self._give_up(talking)
            return "cancelled"
        finally:
            cancelling.cancel()

    async def _give_up(self, talking: "asyncio.Task[str]") -> None:
        """Tell the agent to stop, and let it end its turn; one that is gone has."""
        self._questions.close()
        if self._session_id is None:
            return
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(self._settings.limits.cancel_ms / 1000):
                await self._peer.tell("session/cancel", {"sessionId": self._session_id})
                await asyncio.wait({talking})

    async def _talk(self, known: asked.RemoteTarget | None) -> str:
        hello = {"protocolVersion": VERSION, "clientCapabilities": _NOTHING_LENT}
        greeting = await self._peer.ask("initialize", hello, _Greeting)
        if greeting.protocol_version != VERSION:
            problem = f"the coding agent speaks version {greeting.protocol_version}, not {VERSION}"
            raise errors.RemoteUnsupported(problem=problem)
        abilities = greeting.agent_capabilities or _Abilities()
        said = self._request.new_messages or self._request.messages
        prompt = prompt_of(said, abilities.prompt_capabilities or PromptAbilities())
        earlier = known.context_id if known is not None and abilities.load_session else None
        session_id = await self._opened(earlier)
        await self._save(session_id, None)
        return await self._prompt(session_id, prompt)

    async def _opened(self, earlier: str | None) -> str:
        place = {"cwd": self._settings.program.cwd, "mcpServers": []}
        if earlier is not None:
            try:
                await self._peer.ask("session/load", {**place, "sessionId": earlier}, object)
            except errors.RemoteError as error:
                # It was never prompted (a run whose session was has failed before): an agent may
                # keep none of those, and a new one is as good.
                logger.warning(
                    "Session '%s' is not loaded; a new one is opened: %s", earlier, error
                )
            else:
                return earlier
        return (await self._peer.ask("session/new", place, _Session)).session_id

    async def _prompt(self, session_id: str, prompt: list[Block]) -> str:
        # Durable before it is sent: what may have arrived is never sent again.
        await self._save(session_id, self._request.run_identity.run_id)
        self._session_id = session_id
        self._progress.begin(session_id)
        params: dict[str, Any] = {"sessionId": session_id, "prompt": prompt}
        trace = CURRENT_TRACE.get()
        if trace is not None:
            params["_meta"] = trace.headers
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
        """What the agent tells and asks; it is lent nothing, so all else is refused."""
        if method == "session/update":
            return self._heed(params)
        if is_notification:
            return None
        refusal = library().RequestError
        if method != "session/request_permission":
            raise refusal.method_not_found(method)
        try:
            wanted = msgspec.convert(params, PermissionRequest)
            shown = self._process.redacted_value(msgspec.to_builtins(wanted.tool_call))
            wanted = msgspec.structs.replace(wanted, tool_call=msgspec.convert(shown, AskedCall))
        except (msgspec.ValidationError, RecursionError) as error:
            raise refusal(_INVALID_PARAMS, str(error)) from error
        if wanted.session_id != self._session_id:
            raise refusal(_INVALID_PARAMS, "No such session is prompted.")
        if len(msgspec.json.encode(wanted)) > self._settings.limits.question_bytes:
            raise refusal(_INVALID_PARAMS, "The request is too large to be shown to anybody.")
        return await self._questions.answer(wanted)

    def _heed(self, params: Any) -> None:
        try:
            self._progress.heed(msgspec.convert(params, SessionUpdate))
        except msgspec.ValidationError as error:
            said = str(error)[:_SHOWN_CHARS]
            self._wire.fail(errors.RemoteMalformed(problem=f"a session update: {said}"))
        except errors.RemoteError as error:
            self._wire.fail(error)


async def _never() -> None:
    await asyncio.Event().wait()
