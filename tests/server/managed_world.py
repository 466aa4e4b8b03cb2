"""A server with managed configuration, without sockets, and callers of every kind."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from awaken import Access, Agent, AgentRuntime, AgentSpec, ModelSpec, ToolContext, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import EVERYTHING, Answer, Request, ask, bearer, config, token

RULES = {
    "default_behavior": "ask",
    "rules": [
        {"tool": "look", "behavior": "allow"},
        {"tool": "change", "behavior": "allow"},
        {"tool": "wipe", "behavior": "deny"},
    ],
}
PRICES = {"input": 2.0, "output": 4.0}


@tool(effect="none")
def look() -> str:
    """Look around."""
    return "nothing"


@tool
def change() -> str:
    """Change something."""
    return "changed"


@tool
def wipe() -> str:
    """Wipe everything."""
    return "wiped"


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask a person."""
    return ctx.suspend("May I?") if ctx.resume is None else "done"


def agents() -> list[Any]:
    """The agents of the code: one that may be patched, and one whose runs wait."""
    asking = [*[ToolCalls([("ask_first", {})])] * 4, *["Done."] * 4]
    return [
        AgentSpec(
            id="helper",
            model_id="fast",
            system_prompt="Help.",
            plugin_ids=("permission",),
            allowed_tools=("look", "change", "wipe"),
            sections={"permission": RULES},
        ),
        Agent("asker", model=ScriptedModel(asking, cycle=True), tools=[ask_first]),
    ]


def make_runtime(script: Any = ("Hello.",), **options: Any) -> AgentRuntime:
    """A runtime with managed configuration; `script` is what the model `fast` answers."""
    return AgentRuntime(
        agents(),
        tools=[look, change, wipe],
        plugins=[PermissionPlugin()],
        providers={"own": ScriptedModel(list(script), cycle=True)},
        models=[
            ModelSpec(id="fast", provider_id="own", upstream_model="fast-1", prices=PRICES),
            ModelSpec(id="best", provider_id="own", upstream_model="best-1"),
        ],
        managed=True,
        **options,
    )


class World:
    """The server, and the runtime below it."""

    def __init__(self, runtime: AgentRuntime, app: Any) -> None:
        self.runtime = runtime
        self.app = app

    async def ask(self, operation: str, body: Any = None, who: str = "boss", **more: str) -> Answer:
        """Send a request; further keywords are headers, with `_` for `-`."""
        method, path = operation.split()
        headers = {**bearer(who), **{name.replace("_", "-"): it for name, it in more.items()}}
        return await ask(self.app, method, path, body=body, headers=headers)

    async def get(self, path: str, who: str = "boss") -> Any:
        """Get something that is there."""
        answer = await self.ask(f"GET {path}", who=who)
        assert answer.status == 200, answer.body
        return answer.json

    async def do(self, operation: str, body: Any = None, status: int = 200, **more: str) -> Any:
        """Do something that works."""
        answer = await self.ask(operation, body, **more)
        assert answer.status == status, (answer.status, answer.body)
        return answer.json if answer.body else None

    async def run(self, agent_id: str, thread_id: str, who: str = "boss", **more: Any) -> Any:
        """Run an agent to its end or its wait; returns the run."""
        message = {"role": "user", "content": "go"}
        body = {"agent_id": agent_id, "thread_id": thread_id, "messages": [message], **more}
        request = Request(self.app, "POST", "/v1/runs", headers=bearer(who), body=body)
        await asyncio.wait_for(request.task, 10)
        assert request.answer.status == 200, request.answer.body
        return await self.get(f"/v1/threads/{thread_id}/runs/latest", who)

    async def draft(self, **changes: Any) -> str:
        """Begin a draft with overrides of agents of the code, by id; returns its id."""
        made = await self.do("POST /v1/config/drafts", {"title": "try"}, 201)
        for name, fields in changes.items():
            path = f"/v1/config/drafts/{made['id']}/agents/{name}"
            await self.do(f"PUT {path}", {"overrides": fields})
        return made["id"]


def world(scenario: Callable[[World], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a scenario against a fresh server."""

    async def main() -> None:
        async with make_runtime(**options) as runtime:
            app = runtime.asgi(
                config(
                    token("boss"),
                    token("reader", frozenset({Access.READ})),
                    token("caller", frozenset({Access.INVOKE, Access.READ})),
                    token("tenant", EVERYTHING, tenant_id="ours"),
                    token("editor", frozenset({Access.CONFIG, Access.INVOKE, Access.READ})),
                )
            )
            await app.open()
            await scenario(World(runtime, app))

    asyncio.run(main())
