"""A tenant with as much queued as it may is refused with 429 over every way in; others go on."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig, TenantLimits
from awaken.errors import TenantQueueFull
from awaken.stores import Thread
from awaken.testing import ScriptedModel

from .in_process import ask, bearer, config, token

WAYS: dict[str, Any] = {
    "/v1/threads/other/mailbox": {"payload": "listen"},
    "/v1/threads/other/messages": {"messages": [{"content": "listen"}], "agentId": "default"},
    "/v1/runs": {"messages": [{"content": "listen"}], "agentId": "default", "threadId": "other"},
    "/v1/responses": {"model": "default", "input": "listen", "background": True},
}


@pytest.mark.parametrize("path", WAYS)
def test_every_way_into_the_queue_refuses_a_full_tenant_with_429_and_when_to_retry(
    path: str,
) -> None:
    async def check() -> None:
        agent = Agent("default", model=ScriptedModel(["hi"], cycle=True))
        limits = MailboxConfig(tenants={"ann": TenantLimits(queue_limit=1)})
        # Without a worker: what is queued stays.
        async with AgentRuntime([agent], mailbox=limits, has_worker=False) as runtime:
            app = runtime.asgi(config(token("ann", tenant_id="ann"), token("bob", tenant_id="bob")))

            async def post(who: str, key: str) -> Any:
                headers = {**bearer(who), "idempotency-key": key}
                return await ask(app, "POST", path, body=WAYS[path], headers=headers)

            for name in ("ann", "bob"):
                await runtime.store.save_thread(Thread(id=f"@{name}:other", tenant_id=name))
            await runtime.submit("default", "first", tenant_id="ann")
            with pytest.raises(TenantQueueFull):
                await runtime.submit("default", "second", tenant_id="ann")
            refused = await post("ann", "one")
            assert refused.status == 429, refused.body
            assert refused.headers["retry-after"] == "1"
            assert b"tenant_queue_full" in refused.body
            assert b"'ann' has 1 queued" in refused.body
            other = await post("bob", "one")
            assert other.status in (200, 201, 202), other.body

    asyncio.run(check())
