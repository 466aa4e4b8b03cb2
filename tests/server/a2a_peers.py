"""Other servers to delegate to over A2A: the official one, and one that follows a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from awaken import RemoteEndpoint, RunIdentity, user
from awaken.backends import (
    A2ABackend,
    A2ABackendFactory,
    BackendAbortRequest,
    BackendRootRunRequest,
    RemoteTarget,
)
from awaken.backends.a2a.turn import context_of
from awaken.contracts.clock import SystemClock
from awaken.outbound.guard import Outbound
from awaken.testing import EventRecorder

from .serving import serving_app

IDENTITY = RunIdentity(thread_id="thread-1", run_id="run-1", agent_id="far")
CONTEXT = context_of(IDENTITY.thread_id)


class Kept:
    """A checkpoint in memory that remembers every save."""

    def __init__(self) -> None:
        self.targets: dict[str, RemoteTarget] = {}
        self.saved: list[RemoteTarget] = []
        self.has_saved = asyncio.Event()

    def load(self, target: str) -> RemoteTarget | None:
        """What was saved last."""
        return self.targets.get(target)

    async def save(self, target: str, state: RemoteTarget) -> None:
        """Keep it."""
        self.targets[target] = state
        self.saved.append(state)
        self.has_saved.set()


class Turns:
    """Runs turns of one thread on a backend."""

    def __init__(self, backend: A2ABackend) -> None:
        self.backend = backend
        self.kept = Kept()
        self.seen = EventRecorder()

    def request(self, text: str = "hi", run_id: str = "run-1", **more: Any) -> Any:
        """A request whose message has an id made of its text."""
        said = msgspec.structs.replace(user(text), id=f"m-{text}")
        identity = msgspec.structs.replace(IDENTITY, run_id=run_id)
        return BackendRootRunRequest(
            agent_id="far",
            messages=[said],
            new_messages=[said],
            sink=self.seen,
            resolver=None,
            run_identity=identity,
            checkpoint=self.kept,
            **more,
        )

    async def run(self, text: str = "hi", **more: Any) -> Any:
        """Execute a turn, within half a minute."""
        async with asyncio.timeout(30):
            return await self.backend.execute_root(self.request(text, **more))

    def start(self, text: str = "hi", **more: Any) -> asyncio.Task[Any]:
        """Execute a turn in the background."""
        return asyncio.create_task(self.run(text, **more))

    async def abort(self, run_id: str = "run-1") -> None:
        """Abort a run, as the runtime does after it cancelled it."""
        identity = msgspec.structs.replace(IDENTITY, run_id=run_id)
        async with asyncio.timeout(20):
            await self.backend.abort(
                BackendAbortRequest(agent_id="far", run_identity=identity, checkpoint=self.kept)
            )


@asynccontextmanager
async def turns(url: str, **endpoint: Any) -> AsyncIterator[Turns]:
    """A backend for a server, closed in the end."""
    factory = A2ABackendFactory(Outbound(), SystemClock())
    try:
        yield Turns(factory.build(RemoteEndpoint(base_url=url, **endpoint)))
    finally:
        await factory.close()


Behaviour = Callable[[RequestContext, TaskUpdater], Awaitable[None]]


class Executor(AgentExecutor):
    """An agent of the official server that behaves as a test says."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.cancelled: list[str] = []
        self.messages: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Begin or continue a task."""
        assert context.message is not None
        self.messages.append(context.message.message_id)
        if context.message.parts[0].text == "direct":
            await event_queue.enqueue_event(new_text_message("at once"))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await self._behaviour(context, _updater(context, event_queue))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop a task."""
        self.cancelled.append(context.task_id or "")
        await _updater(context, event_queue).cancel()


def _updater(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    return TaskUpdater(event_queue, context.task_id or "", context.context_id or "")


@asynccontextmanager
async def official_peer(executor: Executor, *bindings: str) -> AsyncIterator[str]:
    """The official server; yields its base URL. Without bindings it has no card."""
    app = Starlette()
    async with serving_app(app) as url:
        card = AgentCard(
            name="peer",
            description="A peer.",
            version="1",
            supported_interfaces=[
                AgentInterface(
                    url=url + ("/rpc" if it == "JSONRPC" else "/a2a"),
                    protocol_binding=it,
                    protocol_version="1.0",
                )
                for it in bindings
            ],
            capabilities=AgentCapabilities(streaming=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
        )
        handler = DefaultRequestHandlerV2(executor, InMemoryTaskStore(), card)
        if "JSONRPC" in bindings:
            app.router.routes += create_jsonrpc_routes(handler, "/rpc")
        if not bindings or "HTTP+JSON" in bindings:
            app.router.routes += create_rest_routes(handler, path_prefix="/a2a")
        if bindings:
            app.router.routes += create_agent_card_routes(card)
        try:
            yield url
        finally:
            await handler.aclose()


Reply = Any
"""A response, a JSON value, or a function of the request that returns one, maybe later."""


class RawPeer:
    """A server that answers each request with the next reply of its script; the last one stays.

    Scripts are by method and path, such as `POST /message:send`. What it was asked is kept.
    """

    def __init__(self, **card: Any) -> None:
        self.scripts: dict[str, list[Reply]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        if card:
            self.scripts["GET /.well-known/agent-card.json"] = [card]

    def on(self, place: str, *replies: Reply) -> "RawPeer":
        """Say how a place answers."""
        self.scripts[place] = list(replies)
        return self

    def places(self) -> list[str]:
        """Where it was asked, the card left out."""
        return [place for place, _ in self.asked if "well-known" not in place]

    def bodies(self, place: str) -> list[Any]:
        """What a place was asked."""
        return [body for asked, body in self.asked if asked == place]

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        place = f"{request.method} {request.url.path}"
        body = await request.body()
        self.asked.append((place, json.loads(body) if body else dict(request.query_params)))
        self.headers.append(dict(request.headers))
        script = self.scripts.get(place)
        if not script:
            return Response(status_code=404)
        reply = script[0] if len(script) == 1 else script.pop(0)
        if callable(reply) and not isinstance(reply, Response):
            reply = reply(request)
        if asyncio.iscoroutine(reply):
            reply = await reply
        return reply if isinstance(reply, Response) else JSONResponse(reply)


@asynccontextmanager
async def raw_peer(peer: RawPeer) -> AsyncIterator[str]:
    """Serve a scripted peer; yields its URL."""
    route = Route("/{path:path}", peer.answer, methods=["GET", "POST"])
    async with serving_app(Starlette(routes=[route])) as url:
        yield url


def task(state: str, task_id: str = "t-1", text: str = "", **more: Any) -> dict[str, Any]:
    """A task as the wire has it."""
    status: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
    if text:
        message = {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        status["message"] = message
    return {"id": task_id, "contextId": CONTEXT, "status": status, **more}


def moved(state: str, task_id: str = "t-1") -> dict[str, Any]:
    """A status update as the wire has it."""
    return {"statusUpdate": {"taskId": task_id, "status": {"state": f"TASK_STATE_{state}"}}}


def piece(text: str, *, append: bool = False, task_id: str = "t-1") -> dict[str, Any]:
    """A piece of an artifact as the wire has it."""
    artifact = {"artifactId": "out", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": task_id, "artifact": artifact, "append": append}}


def events(*items: Any, then: asyncio.Event | None = None) -> Callable[[Request], Response]:
    """A stream of events, which stays open until `then` is set if it is given."""

    async def body() -> AsyncIterator[bytes]:
        for item in items:
            yield b"data: " + json.dumps(item).encode() + b"\n\n"
        if then is not None:
            async with asyncio.timeout(20):
                await then.wait()

    return lambda _: StreamingResponse(body(), media_type="text/event-stream")
