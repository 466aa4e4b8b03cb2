"""A result that a route of FastAPI returns is sent as JSON, however the route is annotated."""

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pydantic
import pytest
from fastapi import FastAPI

from awaken import Agent, RunResult, tool
from awaken.testing import ScriptedModel, ToolCalls


@dataclass
class Plain:
    city: str


class Model(pydantic.BaseModel):
    city: str


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def get(site: FastAPI, path: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(site)
        async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
            return await client.get(path)

    return asyncio.run(ask())


def serve(agent: Agent[Any, Any], returns: Any = None) -> Any:
    """What a route answers that returns the result of an agent."""
    site = FastAPI()

    async def ask() -> Any:
        return await agent.run("Hi", thread_id="t")

    ask.__annotations__["return"] = returns
    if returns is None:
        del ask.__annotations__["return"]
    site.get("/ask")(ask)
    if returns not in (None, Any):
        shown = get(site, "/openapi.json").json()["paths"]["/ask"]["get"]["responses"]["200"]
        assert '"type": "object"' in str(shown).replace("'", '"')
    answer = get(site, "/ask")
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("type_", [None, Plain, Model])
@pytest.mark.parametrize("annotation", [None, Any, RunResult, "its own"])
def test_a_route_returns_a_result(type_: Any, annotation: Any) -> None:
    said = "Rome." if type_ is None else '{"city": "Rome"}'
    agent: Agent[Any, Any] = Agent("a", model=ScriptedModel([said]), output_type=type_)
    sent = serve(agent, RunResult[type_ or str] if annotation == "its own" else annotation)
    assert set(sent) == set(RunResult.__struct_fields__)
    assert sent["output"] == ("Rome." if type_ is None else {"city": "Rome"})
    assert (sent["thread_id"], sent["status"], sent["tickets"]) == ("t", "done", [])


@pytest.mark.parametrize("returns", [None, RunResult])
def test_a_route_returns_a_result_that_waits(returns: Any) -> None:
    agent = Agent("a", model=ScriptedModel([ToolCalls([("pay", {})])]), tools=[pay])
    sent = serve(agent, returns)
    assert (sent["status"], sent["tickets"][0]["tool_name"]) == ("waiting", "pay")


@pytest.mark.parametrize("returns", [None, Any, dict, dict[str, list[RunResult]]])
def test_a_route_returns_results_inside_something_else(returns: Any) -> None:
    site = FastAPI()

    async def ask() -> Any:
        return {"runs": [await Agent("a", model=ScriptedModel(["Rome."])).run("Hi")]}

    ask.__annotations__["return"] = returns
    if returns is None:
        del ask.__annotations__["return"]
    site.get("/ask")(ask)
    assert get(site, "/ask").json()["runs"][0]["output"] == "Rome."


def test_a_field_of_a_model_and_a_list_hold_results() -> None:
    class Report(pydantic.BaseModel):
        runs: list[RunResult]

    result = Agent("a", model=ScriptedModel(["Rome."])).run_sync("Hi")
    report = Report(runs=[result])
    assert report.runs[0] is result
    assert report.model_dump(mode="json")["runs"] == [result.to_dict()] == [dict(result)]
    with pytest.raises(pydantic.ValidationError):
        Report.model_validate({"runs": [{"text": "made up"}]})


def test_an_output_without_a_json_form_is_named() -> None:
    result = Agent("a", model=ScriptedModel(["Rome."])).run_sync("Hi")
    odd = type(result)(
        run_id="r", thread_id="t", agent_id="a", status=result.status, output=object()
    )
    with pytest.raises(TypeError, match="object"):
        odd.to_dict()
