"""What Prometheus finds at /metrics, and operators at /v1/system/stats: bounded names, no ids."""

import asyncio
import re
from typing import Any

import aiohttp
import pytest
from tests.server.serving import serving

from awaken import Agent, AgentRuntime, RunFailed, ToolContext, tool
from awaken.contracts.models.errors import Unauthorized
from awaken.contracts.secrets import RedactedString
from awaken.extensions.handoff import HandoffPlugin
from awaken.server.config import ServerConfig, TokenSpec
from awaken.testing import ScriptedModel, ToolCalls
from awaken.transport.routes import Access

WAIT_S = 30
NAMES = (
    "awaken_active_runs",
    "awaken_agent_delegation_duration_seconds",
    "awaken_agent_delegations_total",
    "awaken_agent_handoffs_total",
    "awaken_agent_session_duration_seconds",
    "awaken_agent_suspensions_total",
    "awaken_errors_total",
    "awaken_http_request_duration_seconds",
    "awaken_http_requests_in_flight",
    "awaken_http_requests_total",
    "awaken_inference_duration_seconds",
    "awaken_inference_errors_total",
    "awaken_inference_requests_total",
    "awaken_inference_tokens_total",
    "awaken_mailbox_dispatch_claim_to_start_seconds",
    "awaken_mailbox_dispatch_depth",
    "awaken_mailbox_dispatch_eligible_to_start_seconds",
    "awaken_mailbox_dispatch_enqueue_to_complete_seconds",
    "awaken_mailbox_dispatch_enqueue_to_start_seconds",
    "awaken_mailbox_dispatch_runtime_seconds",
    "awaken_mailbox_operation_duration_seconds",
    "awaken_mailbox_operations_total",
    "awaken_mailbox_queue_depth",
    "awaken_run_duration_seconds",
    "awaken_runs_total",
    "awaken_sse_connections",
    "awaken_tool_calls_total",
    "awaken_tool_duration_seconds",
    "awaken_tool_errors_total",
)


@tool(effect="none")
async def fail() -> str:
    """Fail."""
    raise RuntimeError("no")


@tool
async def approve(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?", action="confirm")


def agents() -> list[Agent]:
    calls = ToolCalls([("fail", {}), ("agent_run_helper", {"prompt": "help"})])
    over = ToolCalls([("transfer_to_agent", {"agent_id": "second"})])
    return [
        Agent(
            "lead",
            model=ScriptedModel([calls, over]),
            tools=[fail],
            delegates=["helper"],
            plugins=[HandoffPlugin({"second": "rest"})],
        ),
        Agent("helper", model=ScriptedModel(["Helped."])),
        Agent("second", model=ScriptedModel([ToolCalls([("approve", {})])]), tools=[approve]),
        Agent("broken", model=ScriptedModel([Unauthorized("no")])),
        Agent("queued", model=ScriptedModel(["Later."])),
    ]


async def _scraped(http: aiohttp.ClientSession, url: str) -> dict[str, float]:
    async with http.get(f"{url}/metrics") as reply:
        lines = (await reply.text()).splitlines()
    found = {}
    for line in lines:
        name, _, value = line.rpartition(" ")
        if not line.startswith("#"):
            found[name] = float(value)
        elif line.startswith("# TYPE"):
            found.setdefault(line.split()[2], 0)
    return found


def test_everything_that_a_server_does_is_counted_under_its_name() -> None:
    async def scenario() -> tuple[dict[str, float], list[str], Any]:
        runtime = AgentRuntime(agents())
        async with serving(runtime) as url, aiohttp.ClientSession() as http:
            await http.get(f"{url}/health")
            await runtime.run("lead", "go", thread_id="secret-thread")
            with pytest.raises(RunFailed):
                await runtime.run("broken", "go")
            receipt = await runtime.submit("queued", "go")
            await runtime.wait(receipt.run_id)
            async with http.get(f"{url}/v1/system/stats") as reply:
                assert reply.status == 200
                stats = await reply.json()
            ids = ["secret-thread", receipt.run_id, receipt.dispatch_id]
            return await _scraped(http, url), ids, stats

    found, ids, stats = asyncio.run(asyncio.wait_for(scenario(), WAIT_S))
    missing = [name for name in NAMES if not any(it.startswith(name) for it in found)]
    assert missing == []
    assert not any(id_ in name for id_ in ids for name in found)
    assert not any(re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", name) for name in found)
    ok = 'model="lead:model",provider="scripted",status="ok"'
    assert found[f"awaken_inference_requests_total{{{ok}}}"] == 2
    assert found[f"awaken_inference_duration_seconds_count{{{ok}}}"] == 2
    broken = 'model="broken:model",provider="scripted"'
    assert found[f'awaken_inference_requests_total{{{broken},status="error"}}'] == 1
    assert found[f'awaken_inference_errors_total{{{broken},class="unauthorized"}}'] == 1
    prompt = 'model="lead:model",provider="scripted",type="prompt"'
    assert found[f"awaken_inference_tokens_total{{{prompt}}}"] == 20
    assert found['awaken_tool_duration_seconds_count{tool="fail",status="error"}'] == 1
    assert found['awaken_tool_errors_total{tool="fail",class="tool_error"}'] == 1
    assert found['awaken_agent_delegations_total{status="natural_end"}'] == 1
    assert found["awaken_agent_delegation_duration_seconds_count"] == 1
    assert found["awaken_agent_handoffs_total"] == 1
    assert found["awaken_agent_session_duration_seconds_count"] == 4
    assert found['awaken_errors_total{class="unauthorized"}'] == 2
    assert found['awaken_errors_total{class="tool_error"}'] == 1
    assert found['awaken_mailbox_operations_total{operation="submit",result="ok"}'] == 1
    assert found['awaken_mailbox_operations_total{operation="claim",result="ok"}'] >= 1
    assert found["awaken_mailbox_dispatch_enqueue_to_start_seconds_count"] == 1
    assert found['awaken_mailbox_dispatch_runtime_seconds_count{outcome="acked"}'] == 1
    assert stats["agents"]["lead"]["count"] == 1
    assert stats["agents"]["broken"]["errors"] == 1
    assert stats["models"]["lead:model"]["count"] == 2
    assert stats["tools"]["fail"]["errors"] == 1


def test_statistics_are_for_those_who_see_every_tenant() -> None:
    tokens = (
        TokenSpec(token=RedactedString("o" * 32), id="op", access=frozenset({Access.READ})),
        TokenSpec(
            token=RedactedString("t" * 32), id="t", access=frozenset({Access.READ}), tenant_id="x"
        ),
        TokenSpec(token=RedactedString("i" * 32), id="i", access=frozenset({Access.INVOKE})),
    )

    async def scenario() -> list[int]:
        runtime = AgentRuntime(agents())
        found = []
        config = ServerConfig(tokens=tokens)
        async with serving(runtime, config) as url, aiohttp.ClientSession() as http:
            for mark in ("o", "t", "i", ""):
                headers = {"authorization": f"Bearer {mark * 32}"} if mark else {}
                async with http.get(f"{url}/v1/system/stats", headers=headers) as reply:
                    found.append(reply.status)
        return found

    assert asyncio.run(asyncio.wait_for(scenario(), WAIT_S)) == [200, 403, 403, 401]


def test_a_server_that_was_closed_watches_no_more_and_one_that_opens_again_counts_once() -> None:
    async def scenario() -> tuple[int, int, float]:
        async with AgentRuntime([Agent("a", model=ScriptedModel(["Hi."], cycle=True))]) as runtime:
            app = runtime.asgi()
            await app.open()
            await app.close()
            services = runtime._engine.services
            left = len(services.instruments), len(runtime._control.mailbox_watchers)
            await app.open()
            await runtime.run("a", "go")
            turns = app.context.observations.turns.series
            await app.close()
            return (*left, sum(turns.values()))

    assert asyncio.run(asyncio.wait_for(scenario(), WAIT_S)) == (0, 0, 1)
