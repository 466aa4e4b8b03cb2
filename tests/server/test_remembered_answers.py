"""Decisions for always over HTTP: listed and taken back, by whom it concerns and nobody else."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from awaken import Access, AgentRuntime

from .in_process import Answer, ask, bearer, config, token
from .test_remembered_decisions import World

ANSWERS = "/v1/remembered-answers"
SERVER = config(
    token("ann", frozenset({Access.READ, Access.INVOKE, Access.DECIDE}), tenant_id="ours"),
    token("bob", frozenset({Access.READ, Access.DECIDE}), tenant_id="ours"),
    token("reader", frozenset({Access.READ}), tenant_id="ours"),
    token("boss", frozenset({Access.ADMIN, Access.DECIDE}), tenant_id="ours"),
    token("stranger", tenant_id="theirs"),
)
RULES = {"rules": [{"tool": "erase", "behavior": "ask", "scope": "project"}]}


class Office:
    """A server where Ann has decided for always, for herself or for one thread."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def ask(self, who: str, operation: str, body: Any = None) -> Answer:
        method, path = operation.split()
        return await ask(self._app, method, path, headers=bearer(who), body=body)

    async def decided(self, thread_id: str, scope: str) -> None:
        assert await self.is_asked(thread_id)
        (ticket,) = (await self.ask("ann", f"GET /v1/threads/{thread_id}/tickets")).json["items"]
        body = {
            "toolCallId": ticket["tool_call_id"],
            "action": "resume",
            "remember": {"scope": scope},
        }
        told = await self.ask("ann", f"POST /v1/threads/{thread_id}/decision", body)
        assert told.status == 202, told.body
        run_id = ticket["run_id"]
        stream = await self.ask("ann", f"GET /v1/runs/{run_id}/events/stream?cursor=0")
        assert stream.status == 200

    async def is_asked(self, thread_id: str) -> bool:
        said = [{"role": "user", "content": "go"}]
        body = {"agentId": "a", "threadId": thread_id, "messages": said}
        assert (await self.ask("ann", "POST /v1/runs", body)).status == 200
        listed = await self.ask("ann", f"GET /v1/threads/{thread_id}/tickets")
        return bool(listed.json["items"])

    async def scopes(self, who: str, query: str = "") -> list[str]:
        listed = await self.ask(who, f"GET {ANSWERS}{query}")
        assert listed.status == 200, listed.body
        return [it["scope"] for it in listed.json["items"]]


def served(scenario: Callable[[Office], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        agent = World().agent(RULES)
        async with AgentRuntime([agent]) as runtime:
            await scenario(Office(runtime.asgi(SERVER)))

    asyncio.run(whole())


def test_an_answer_is_seen_and_taken_back_and_the_call_is_asked_about_again() -> None:
    async def scenario(office: Office) -> None:
        await office.decided("t", "thread")
        assert not await office.is_asked("t")
        (answer,) = (await office.ask("bob", f"GET {ANSWERS}?thread_id=t")).json["items"]
        assert (answer["tool"], answer["pattern"], answer["behavior"]) == (
            "erase",
            "erase",
            "allow",
        )
        assert (answer["decided_by"], answer["scope"]) == ("ann", "thread")
        assert answer["decided_at"] > 0
        one = f"DELETE {ANSWERS}/{answer['id']}"
        for operation in (one, f"DELETE {ANSWERS}"):
            refused = await office.ask("reader", f"{operation}?thread_id=t&scope=thread")
            assert refused.status == 403
        assert (await office.ask("bob", one)).status == 404, "the thread was not named"
        assert (await office.ask("bob", f"{one}?thread_id=t")).status == 204
        again = await office.ask("bob", f"{one}?thread_id=t")
        assert (again.status, again.json["code"]) == (404, "unknown_answer")
        assert await office.scopes("ann", "?thread_id=t") == []
        assert await office.is_asked("t")

    served(scenario)


def test_answers_of_a_person_are_theirs_and_the_administrators() -> None:
    async def scenario(office: Office) -> None:
        await office.decided("t", "user")
        assert await office.scopes("ann") == ["user"]
        assert await office.scopes("bob") == []
        for operation, query in (("GET", ""), ("DELETE", "&scope=user")):
            refused = await office.ask("bob", f"{operation} {ANSWERS}?user_id=ann{query}")
            assert refused.status == 403
        assert await office.scopes("boss", "?user_id=ann") == ["user"]
        gone = await office.ask("boss", f"DELETE {ANSWERS}?user_id=ann&scope=user")
        assert [it["scope"] for it in gone.json["items"]] == ["user"]
        assert await office.is_asked("u")

    served(scenario)


def test_another_tenant_neither_sees_nor_forgets_anything() -> None:
    async def scenario(office: Office) -> None:
        await office.decided("t", "thread")
        await office.decided("u", "project")
        (_, answer) = (await office.ask("ann", f"GET {ANSWERS}?thread_id=t")).json["items"]
        assert await office.scopes("stranger", "?user_id=ann") == []
        for query in ("?thread_id=t", "?thread_id=absent"):
            for operation in (f"GET {ANSWERS}", f"DELETE {ANSWERS}/{answer['id']}"):
                refused = await office.ask("stranger", operation + query)
                assert (refused.status, refused.json["code"]) == (404, "unknown_thread")
        gone = await office.ask("stranger", f"DELETE {ANSWERS}?scope=project")
        assert (gone.status, gone.json["items"]) == (200, [])
        one = await office.ask("stranger", f"DELETE {ANSWERS}/{answer['id']}")
        assert one.status == 404
        assert await office.scopes("ann", "?thread_id=t") == ["thread", "project"]

    served(scenario)


def test_a_scope_must_be_one_that_keeps_answers() -> None:
    async def scenario(office: Office) -> None:
        for query in ("", "?scope=ever", "?scope=once", "?scope=thread"):
            refused = await office.ask("ann", f"DELETE {ANSWERS}{query}")
            assert refused.status in (400, 422), query

    served(scenario)
