"""Names that models and clients invent are no labels: metrics know registered tools only."""

import asyncio
import re
from typing import Any

from tests.extensions.telemetry_world import Telemetry

from awaken import Agent, AgentRuntime, tool
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Request, ask

CALLS = 1_200
"""More than a family of series may have."""
CANARY = "canary"
ODD_NAMES = (
    f"{CANARY}\n# TYPE x counter",
    f'{CANARY}"}} 1',
    f"{CANARY}\u2028line",
    f"{CANARY}\x1b[31m",
    f"tool:{CANARY}",
    "add ",
    "ADD",
    "unknown",
    "other",
)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def posted(app: Any, path: str, body: Any) -> None:
    request = Request(app, "POST", path, body=body)
    await asyncio.wait_for(request.task, 30)
    assert request.answer.status == 200, request.answer.body


def labels_in(text: str) -> set[str]:
    return set(re.findall(r'tool="((?:[^"\\]|\\.)*)"', text))


def telemetry_labels(telemetry: Telemetry) -> set[str]:
    metric = telemetry.metrics["gen_ai.execute_tool.duration"]
    return {str((it.attributes or {})["gen_ai.tool.name"]) for it in metric.data.data_points}


async def used() -> tuple[str, Any, Telemetry]:
    """Have a model and a client invent names; returns metrics, statistics and telemetry."""
    telemetry = Telemetry()
    invented = [*ODD_NAMES, *(f"{CANARY}_{number}" for number in range(CALLS))]
    good = ("add", {"a": 1, "b": 2})
    inventing = ScriptedModel([ToolCalls([good, *((it, {}) for it in invented)]), "Done."])
    brought = [f"{CANARY}_client_{number}" for number in range(20)]
    clients = ScriptedModel([ToolCalls([good, *((it, {}) for it in brought)])])
    agents = [
        Agent("inventing", model=inventing, tools=[add]),
        Agent("clients", model=clients, tools=[add]),
    ]
    async with AgentRuntime(agents, everywhere=[telemetry.plugin()]) as runtime:
        app = runtime.asgi()
        say = [{"role": "user", "content": "go", "id": "m"}]
        await posted(app, "/v1/runs", {"agentId": "inventing", "messages": say})
        tools = [{"name": name, "description": "x"} for name in brought]
        body = {"threadId": "t", "runId": "r", "messages": say, "tools": tools}
        await posted(app, "/v1/ag-ui/agents/clients/runs", body)
        metrics = (await ask(app, "GET", "/metrics")).body.decode()
        statistics = (await ask(app, "GET", "/v1/system/stats")).body.decode()
    return metrics, statistics, telemetry


def test_names_that_models_and_clients_invent_never_become_labels() -> None:
    metrics, statistics, telemetry = asyncio.run(used())
    assert labels_in(metrics) == {"add", "unknown"}
    assert CANARY not in metrics
    assert 'awaken_tool_calls_total{tool="add",status="succeeded"} 2' in metrics
    failed = len(ODD_NAMES) + CALLS
    assert f'awaken_tool_calls_total{{tool="unknown",status="failed"}} {failed}' in metrics
    assert '"add"' in statistics
    assert CANARY not in statistics
    assert telemetry_labels(telemetry) == {"add", "unknown"}
    spans = telemetry.named("execute_tool")
    # Metrics are also made of the names of spans; what was called is in an attribute.
    assert {span.name for span in spans} == {"execute_tool add", "execute_tool unknown"}
    called = {str((span.attributes or {})["gen_ai.tool.name"]) for span in spans}
    assert f"{CANARY}_client_7" in called
