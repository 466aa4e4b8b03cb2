"""Schedules and triggers that several people change, and those that reach an open workflow."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import AgentRuntime, RunStatus, WorkflowContext, workflow
from awaken.errors import ScheduleChanged

from .test_schedules_http import CRON, STANDARD, TARGET, World, served

SCHEDULE = {"timing": CRON, "target": TARGET}
NEW = {"schedules": SCHEDULE, "triggers": STANDARD}


@pytest.mark.parametrize("kind", NEW)
def test_a_change_of_what_another_has_changed_is_refused(kind: str) -> None:
    async def test(world: World) -> None:
        body, place = NEW[kind], f"/v1/{kind}/orders"
        read = (await world.ask(f"POST /v1/{kind}", {**body, "id": "orders"})).json["revision"]
        mine = {**body, "description": "mine"}
        first = await world.ask(f"PUT {place}", mine, **{"if-match": f'"{read}"'})
        assert first.status == 200
        assert dict(first.headers)["etag"] == f'"{first.json["revision"]}"'
        theirs = {**body, "description": "theirs"}
        second = await world.ask(f"PUT {place}", theirs, **{"if-match": f'"{read}"'})
        assert (second.status, second.json["code"]) == (409, "schedule_changed")
        assert (await world.ask(f"GET {place}")).json["description"] == "mine"
        again = await world.ask(f"PUT {place}", theirs, **{"if-match": first.json["revision"]})
        assert again.status == 200
        blind = await world.ask(f"PUT {place}", body, **{"if-match": ""})
        assert (blind.status, blind.json["code"]) == (428, "revision_required")
        # Whoever pauses a trigger has changed what it says; nobody resumes it unseen.
        await world.ask(f"POST {place}/pause")
        stale = await world.ask(f"PUT {place}", body, **{"if-match": again.json["revision"]})
        assert (stale.status == 409) == (kind == "triggers")

    served(test)


def test_what_a_schedule_fires_is_no_change_of_it() -> None:
    async def test(world: World) -> None:
        made = (await world.ask("POST /v1/schedules", {**SCHEDULE, "id": "daily"})).json
        await world.ask("POST /v1/schedules/daily/fire")
        changed = await world.ask(
            "PUT /v1/schedules/daily",
            {**SCHEDULE, "description": "new"},
            **{"if-match": made["revision"]},
        )
        assert (changed.status, changed.json["fired_count"]) == (200, 1)

    served(test)


def test_of_many_concurrent_changes_one_is_kept_and_the_others_are_told(tmp_path: Path) -> None:
    @workflow
    async def idle(ctx: WorkflowContext) -> None: ...

    async def main() -> None:
        url = f"sqlite:///{tmp_path / 's.db'}"
        async with AgentRuntime([idle], store=url) as one, AgentRuntime([idle], store=url) as two:
            made = await one.schedules.create("idle", "{}", schedule_id="it", cron="0 8 * * *")

            async def change(runtime: AgentRuntime, number: int) -> bool:
                spec = _describe(made.spec, f"{number}")
                try:
                    await runtime.schedules.update("it", spec, revision=made.spec_revision)
                except ScheduleChanged:
                    return False
                return True

            kept = await asyncio.gather(*(change((one, two)[it % 2], it) for it in range(8)))
            assert kept.count(True) == 1
            found = await two.schedules.get("it")
            assert found.spec.description == str(kept.index(True))
            # Who names no revision replaces whatever it says, and is never told to read it again.
            texts = [f"last {it}" for it in range(8)]
            await asyncio.gather(
                *(
                    (one, two)[it % 2].schedules.update("it", _describe(made.spec, texts[it]))
                    for it in range(8)
                )
            )
            assert (await two.schedules.get("it")).spec.description in texts

    asyncio.run(main())


def _describe(spec: Any, description: str) -> Any:
    return type(spec)(
        **{name: getattr(spec, name) for name in spec.__struct_fields__ if name != "description"},
        description=description,
    )


@workflow(id="order", events={"paid": {"type": "integer"}})
async def order(ctx: WorkflowContext) -> Any:
    """Wait until an order is paid, and for what people say."""
    paid = await ctx.wait_for("paid")
    said = await ctx.wait_for("message")
    return [paid, said]


async def until(world: World, run_id: str, status: RunStatus) -> Any:
    async with asyncio.timeout(20):
        while (run := await world.runtime.get_run(run_id)).status is not status:
            await asyncio.sleep(0.01)
    return run


def deliver_to_order(**more: Any) -> dict[str, Any]:
    target = {"agent_id": "order", "input": "{/amount}", **more}
    return {**STANDARD, "target": target, "thread": "{/order}"}


@pytest.fixture
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_OLD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


@pytest.mark.usefixtures("_secrets")
def test_a_delivery_to_an_open_workflow_is_its_event_and_says_so() -> None:
    async def test(world: World) -> None:
        paid = deliver_to_order(event="paid")
        await world.ask("POST /v1/triggers", {**paid, "id": "orders"})
        early = await world.deliver({"order": "7", "amount": 5})
        assert (early.status, early.json["code"]) == (409, "run_refused")
        run = await world.runtime.start("order", "{}", thread_id="orders.7")
        await until(world, run.run_id, RunStatus.WAITING)
        # Refused before: the sender delivers it again, and now there is a workflow.
        for _ in range(2):
            answer = await world.deliver({"order": "7", "amount": 5})
            assert answer.status == 202
            assert answer.json == {"status": "delivered", "run_id": run.run_id}
        await world.runtime.triggers.update(
            "orders", deliver_to_order(input="Hello", agent_id="order")
        )
        said = await world.deliver({"order": "7", "amount": 6}, id_="msg_2")
        assert said.json == {"status": "delivered", "run_id": run.run_id}
        ended = await until(world, run.run_id, RunStatus.DONE)
        assert ended.final_output == '[5,"Hello"]'
        page = (await world.ask("GET /v1/triggers/orders/deliveries")).json["items"]
        found = [(it["outcome"], it["run_id"], it["thread_id"]) for it in page]
        assert found == [("delivered", run.run_id, "orders.7")] * 2
        assert (await world.ask("GET /v1/triggers/orders")).json["fired_count"] == 2
        assert (await world.ask("GET /v1/triggers/orders/deliveries?outcome=delivered")).json

    served(test, agents=[order])


@pytest.mark.usefixtures("_secrets")
@pytest.mark.parametrize(
    ("changed", "body", "reason"),
    [
        ({"event": "paid", "input": "no number"}, {"order": "7"}, "event_refused"),
        ({"event": "other"}, {"order": "7", "amount": 1}, "event_refused"),
        ({"event": "paid"}, {"order": "8", "amount": 1}, "no_open_workflow"),
    ],
)
def test_an_event_that_does_not_fit_is_refused(changed: Any, body: Any, reason: str) -> None:
    async def test(world: World) -> None:
        await world.ask("POST /v1/triggers", {**deliver_to_order(**changed), "id": "orders"})
        run = await world.runtime.start("order", "{}", thread_id="orders.7")
        await until(world, run.run_id, RunStatus.WAITING)
        assert (await world.deliver(body)).status == 409
        page = (await world.ask("GET /v1/triggers/orders/deliveries")).json["items"]
        assert [(it["outcome"], it["reason"]) for it in page] == [("refused", reason)]

    served(test, agents=[order])


def test_an_event_needs_a_thread() -> None:
    async def test(world: World) -> None:
        body = {**deliver_to_order(event="paid"), "thread": None}
        refused = await world.ask("POST /v1/triggers", body)
        assert (refused.status, "target.event" in refused.error) == (400, True)
        spec = {"timing": CRON, "target": {"agent_id": "order", "input": 1, "event": "paid"}}
        refused = await world.ask("POST /v1/schedules", spec)
        assert (refused.status, "target.thread_id" in refused.error) == (400, True)

    served(test, agents=[order])


def test_a_schedule_delivers_events_to_an_open_workflow() -> None:
    async def test(world: World) -> None:
        run = await world.runtime.start("order", "{}", thread_id="mine")
        await until(world, run.run_id, RunStatus.WAITING)
        target = {"agent_id": "order", "input": 9, "event": "paid", "thread_id": "mine"}
        await world.ask("POST /v1/schedules", {"id": "pay", "timing": CRON, "target": target})
        told = {"agent_id": "order", "input": "Hello", "thread_id": "mine"}
        await world.ask("POST /v1/schedules", {"id": "say", "timing": CRON, "target": told})
        for name in ("pay", "say"):
            fired = (await world.ask(f"POST /v1/schedules/{name}/fire")).json
            assert (fired["outcome"], fired["run_id"]) == ("delivered", run.run_id)
        ended = await until(world, run.run_id, RunStatus.DONE)
        assert ended.final_output == '[9,"Hello"]'
        late = (await world.ask("POST /v1/schedules/pay/fire")).json
        assert (late["outcome"], late["reason"]) == ("refused", "no_open_workflow")

    served(test, agents=[order])
