"""Workflows over HTTP and from the command line: started, shown, sent events, reset, checked."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime, WorkflowContext, tool, workflow
from awaken.bootstrap.upgrade import check_upgrade
from awaken.cli.main import app as cli
from awaken.stores import SqliteStore
from awaken.testing import ScriptedModel
from awaken.transport.routes import SCOPES, Access

from .in_process import ask, bearer, config, token


class Order(msgspec.Struct):
    id: str
    amount: int


@tool(effect="idempotent")
async def save(text: str) -> str:
    """Save a text."""
    return text.upper()


@workflow(tools=[save])
async def pays(ctx: WorkflowContext, order: Order) -> int:
    """Wait for a payment."""
    ctx.set_status({"order": order.id})
    await ctx.call(save, "begin")
    _, paid = await ctx.gather(ctx.sleep(0.01), ctx.wait_for("payment", Order))
    return int(paid.amount)


START = {
    "agentId": "pays",
    "messages": [{"role": "user", "content": '{"order":{"id":"o","amount":1}}'}],
}


def tokens() -> Any:
    return config(
        token("all", SCOPES),
        token("reader", frozenset({Access.READ})),
        token("other", SCOPES, tenant_id="other"),
    )


async def started(app: Any) -> str:
    headers = {**bearer("all"), "accept": "application/json"}
    answer = await ask(app, "POST", "/v1/runs", body=START, headers=headers)
    assert answer.status == 200, answer.body
    return str(answer.headers["x-run-id"])


async def until(app: Any, path: str, is_so: Any) -> Any:
    async with asyncio.timeout(20):
        while True:
            answer = await ask(app, "GET", path, headers=bearer("all"))
            assert answer.status == 200, answer.body
            if is_so(answer.json):
                return answer.json
            await asyncio.sleep(0.01)


def test_a_workflow_is_started_shown_and_sent_an_event() -> None:
    async def story() -> None:
        async with AgentRuntime([pays]) as runtime:
            app = runtime.asgi(tokens())
            bad = {**START, "messages": [{"role": "user", "content": '{"order":{"id":"o"}}'}]}
            refused = await ask(app, "POST", "/v1/runs", body=bad, headers=bearer("all"))
            assert refused.status == 422
            assert "amount" in refused.error
            run_id = await started(app)
            way = f"/v1/runs/{run_id}"
            shown = await until(
                app, f"{way}/workflow", lambda it: it["waiting_events"] == ["payment"]
            )
            assert shown["value"] == {"order": "o"}
            (waits,) = [it for it in shown["steps"] if it["event"] == "payment"]
            assert "amount" in waits["event_schema"]["properties"]
            paths = [(it["path"], it["kind"]) for it in shown["steps"]]
            assert paths[:3] == [("1", "status"), ("2", "call"), ("3", "gather")]
            assert {it["path"] for it in shown["steps"] if it["status"] == "waiting"} >= {"3.1.1"}
            event = {"payload": {"id": "p", "amount": 5}, "eventId": "e"}
            for name, status in (("reader", 403), ("other", 404)):
                answer = await ask(
                    app, "POST", f"{way}/events/payment", body=event, headers=bearer(name)
                )
                assert answer.status == status
            wrong = {"payload": {"id": "p"}}
            answer = await ask(
                app, "POST", f"{way}/events/payment", body=wrong, headers=bearer("all")
            )
            assert answer.status == 422
            answer = await ask(
                app, "POST", f"{way}/events/payment", body=event, headers=bearer("all")
            )
            assert answer.status == 202, answer.body
            done = await until(app, way, lambda it: it["status"] == "done")
            assert done["status"] == "done"
            # The answer to the first was lost: its sender gets the same receipt.
            again = await ask(
                app, "POST", f"{way}/events/payment", body=event, headers=bearer("all")
            )
            assert (again.status, again.json["is_duplicate"]) == (202, True)
            for late in ({**event, "eventId": "other"}, {"payload": event["payload"]}):
                answer = await ask(
                    app, "POST", f"{way}/events/payment", body=late, headers=bearer("all")
                )
                assert (answer.status, answer.json["code"]) == (409, "run_has_ended")
            changed = {**event, "payload": {"id": "q", "amount": 5}}
            answer = await ask(
                app, "POST", f"{way}/events/payment", body=changed, headers=bearer("all")
            )
            assert (answer.status, answer.json["code"]) == (409, "dedupe_conflict")

    asyncio.run(story())


def test_runs_of_workflows_are_listed_by_themselves_and_so_are_workflows() -> None:
    async def story() -> None:
        talker = Agent("talker", model=ScriptedModel(["Yes."], cycle=True))
        async with AgentRuntime([pays, talker]) as runtime:
            app = runtime.asgi(tokens())
            first, rest = await started(app), list[str]()
            for _ in range(5):
                rest.append((await runtime.run("talker", "Hello")).run_id)
            path = "/v1/runs?isWorkflow=true&limit=2&order=desc"
            answer = await ask(app, "GET", path, headers=bearer("all"))
            # The pages of the newer runs have none, and are passed over.
            assert [it["run_id"] for it in answer.json["items"]] == [first]
            assert answer.json["items"][0]["is_workflow"] is True
            everything = await ask(app, "GET", "/v1/runs", headers=bearer("all"))
            assert [it["run_id"] for it in everything.json["items"]] == [first, *rest]
            assert "is_workflow" not in everything.json["items"][1]
            other = await ask(app, "GET", path, headers=bearer("other"))
            assert other.json["items"] == []
            agents = (await ask(app, "GET", "/v1/agents", headers=bearer("all"))).json["items"]
            assert {it["id"]: it["is_workflow"] for it in agents} == {"pays": True, "talker": False}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "body", "status", "says"),
    [
        ("x", {"eventId": ""}, 400, "event_id"),
        ("x", {"eventId": "i" * 300}, 400, "event_id"),
        ("x", {"eventId": "a\nb"}, 400, "event_id"),
        ("n" * 201, {}, 400, "The event's name"),
        ("x", {"payload": "y" * 1_000_001}, 413, "The event 'x'"),
    ],
)
def test_a_malformed_event_is_refused_by_its_own_words(
    name: str, body: dict[str, Any], status: int, says: str
) -> None:
    async def story() -> None:
        async with AgentRuntime([pays]) as runtime:
            app = runtime.asgi(tokens())
            way = f"/v1/runs/{await started(app)}/events/{name}"
            answer = await ask(app, "POST", way, body=body, headers=bearer("all"))
            assert answer.status == status, answer.body
            assert says in answer.error
            assert "dedupe" not in answer.error

    asyncio.run(story())


def test_a_flood_of_events_is_refused_but_never_the_one_that_a_step_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("awaken.mailbox.workflow_runs.EVENTS_MAX", 3)

    async def story() -> None:
        async with AgentRuntime([pays]) as runtime:
            app = runtime.asgi(tokens())
            way = f"/v1/runs/{await started(app)}"
            for number in range(3):
                flood = {"payload": number}
                answer = await ask(
                    app, "POST", f"{way}/events/flood", body=flood, headers=bearer("all")
                )
                assert answer.status == 202, answer.body
                await until(app, f"{way}/workflow", lambda it: it["status"] == "waiting")
                async with asyncio.timeout(20):
                    while not await is_taken_in(runtime, answer.json["run_id"], number + 1):
                        await asyncio.sleep(0.01)
            answer = await ask(
                app, "POST", f"{way}/events/flood", body={"payload": 3}, headers=bearer("all")
            )
            assert (answer.status, answer.json["code"]) == (409, "too_many_events")
            assert "3 events" in answer.error
            paid = {"payload": {"id": "p", "amount": 5}}
            answer = await ask(
                app, "POST", f"{way}/events/payment", body=paid, headers=bearer("all")
            )
            assert answer.status == 202, answer.body
            await until(app, way, lambda it: it["status"] == "done")

    asyncio.run(story())
    assert [it for it in caplog.records if it.levelname == "ERROR" or it.exc_info] == []


async def is_taken_in(runtime: AgentRuntime, run_id: str, count: int) -> bool:
    run = await runtime.get_run(run_id)
    messages = await runtime.messages(run.thread_id)
    return len([it for it in messages if it.message.sender is not None]) == count


def test_an_operator_resets_a_run_and_sees_its_effects() -> None:
    async def story() -> None:
        async with AgentRuntime([pays]) as runtime:
            app = runtime.asgi(tokens())
            run_id = await started(app)
            way = f"/v1/runs/{run_id}"
            await until(
                app,
                f"{way}/workflow",
                lambda it: any(s["path"] == "3.0.1" and s["status"] == "done" for s in it["steps"]),
            )
            await until(app, way, lambda it: it["status"] == "waiting")
            refused = await ask(
                app, "POST", f"{way}/reset", body={"step": "9"}, headers=bearer("all")
            )
            assert refused.status == 409
            answer = await ask(
                app, "POST", f"{way}/reset", body={"step": "2"}, headers=bearer("all")
            )
            assert answer.status == 202, answer.body
            assert answer.json["effects"] == ["2 save (idempotent)"]
            shown = await until(
                app,
                f"{way}/workflow",
                lambda it: it["resets"] == 1 and it["waiting_events"] == ["payment"],
            )
            assert [it["path"] for it in shown["steps"]][:2] == ["1", "2"]

    asyncio.run(story())


@pytest.fixture
def parked(tmp_path: Path) -> tuple[str, str]:
    url = f"sqlite:///{tmp_path / 'w.db'}"

    async def story() -> str:
        async with AgentRuntime([pays], store=url) as runtime:
            return (await runtime.run("pays", {"order": {"id": "o", "amount": 1}})).run_id

    return url, asyncio.run(story())


def test_the_command_line_sends_events_and_resets(parked: tuple[str, str]) -> None:
    url, run_id = parked
    runner = CliRunner()
    sent = runner.invoke(
        cli,
        ["runs", "event", run_id, "payment", '{"id":"p","amount":9}', "--id", "x", "--store", url],
    )
    assert sent.exit_code == 0, sent.output
    refused = runner.invoke(cli, ["runs", "event", run_id, "payment", "{}", "--store", url])
    assert refused.exit_code != 0
    dry = runner.invoke(cli, ["runs", "reset", run_id, "2", "--dry-run", "--json", "--store", url])
    assert json.loads(dry.stdout)["effects"] == ["2 save (idempotent)"]

    async def story() -> None:
        async with AgentRuntime([pays], store=url) as runtime:
            async with asyncio.timeout(20):
                while (await runtime.get_run(run_id)).status != "done":
                    await asyncio.sleep(0.01)
            assert (await runtime.wait(run_id)).text == "9"

    asyncio.run(story())


def test_upgrade_check_names_run_step_and_difference_and_executes_nothing(
    parked: tuple[str, str],
) -> None:
    url, run_id = parked
    calls: list[str] = []

    @tool(effect="idempotent", id="save")
    async def other_save(text: str) -> str:
        """Save a text."""
        calls.append(text)
        return text

    @workflow(id="pays", tools=[other_save])
    async def changed(ctx: WorkflowContext, order: Order) -> int:
        ctx.set_status({"order": order.id})
        await ctx.call(other_save, "something else")
        await ctx.wait_for("payment", Order)
        return 1

    @workflow(id="pays", tools=[other_save])
    async def patched(ctx: WorkflowContext, order: Order) -> int:
        ctx.set_status({"order": order.id})
        if ctx.patched("new text"):
            await ctx.call(other_save, "something else")
        else:
            await ctx.call(other_save, "begin")
        await ctx.gather(ctx.sleep(0.01), ctx.wait_for("payment", Order))
        return 1

    async def story() -> None:
        store = SqliteStore(url.removeprefix("sqlite:///"))
        await store.open()
        try:
            assert (await check_upgrade(store, [pays])).is_safe
            assert (await check_upgrade(store, [patched])).is_safe
            report = await check_upgrade(store, [changed])
        finally:
            await store.close()
        assert not report.is_safe
        (blocked,) = report.stranded
        assert blocked.run_id == run_id
        assert "step 2" in blocked.problems[0]
        assert "call save" in blocked.problems[0]
        assert calls == []

    asyncio.run(story())
