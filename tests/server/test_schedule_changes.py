"""Schedules and triggers that several people change, and those that reach an open workflow."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, RunStatus, ToolContext, WorkflowContext, tool, workflow
from awaken.errors import InvalidRecord, ScheduleChanged
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import config, token
from .test_schedules_http import CLOCK, CRON, STANDARD, TARGET, World, served

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


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?") if ctx.resume is None else "done"


def test_a_firing_that_a_waiting_run_takes_is_shown_as_that_run() -> None:
    model = ScriptedModel([ToolCalls([("ask_first", {})]), "Done.", "Done."])
    asker = Agent("asker", model=model, tools=[ask_first])

    async def test(world: World) -> None:
        waiting = await world.runtime.run("asker", "Go.", thread_id="mine")
        assert waiting.status is RunStatus.WAITING
        target = {"agent_id": "asker", "input": "Never mind.", "thread_id": "mine"}
        await world.ask("POST /v1/schedules", {"id": "it", "timing": CRON, "target": target})
        fired = (await world.ask("POST /v1/schedules/it/fire")).json
        assert fired["outcome"] == "fired"
        assert fired["run_id"] != waiting.run_id
        await world.runtime.wait(fired["run_id"])
        shown = (await world.ask(f"GET /v1/runs/{fired['run_id']}")).json
        assert (shown["run_id"], shown["status"]) == (waiting.run_id, "done")

    served(test, agents=[asker])


@pytest.mark.parametrize("kind", NEW)
def test_an_event_is_for_a_workflow(kind: str) -> None:
    async def test(world: World) -> None:
        target = {"agent_id": "writer", "input": 1, "event": "paid"}
        body: Any = {**STANDARD, "target": target, "thread": "{/order}"}
        if kind == "schedules":
            body = {"timing": CRON, "target": {**target, "thread_id": "t"}}
        refused = await world.ask(f"POST /v1/{kind}", body)
        assert (refused.status, "'writer' is no workflow" in refused.error) == (400, True)

    served(test, agents=[order])


def test_a_thread_of_a_tenant_is_refused() -> None:
    async def test(world: World) -> None:
        body = {"timing": CRON, "target": {**TARGET, "thread_id": "@bob:x"}}
        refused = await world.ask("POST /v1/schedules", body)
        assert (refused.status, refused.json["code"]) == (404, "unknown_thread")

    served(test)


@pytest.mark.usefixtures("_secrets")
def test_a_delivery_whose_run_the_store_never_queues_is_refused() -> None:
    async def test(world: World) -> None:
        await world.ask("POST /v1/triggers", {**STANDARD, "id": "orders"})
        store: Any = world.runtime.store
        accept = store.accept_delivery

        async def refuse(delivery: Any, dispatch: Any = None) -> Any:
            if dispatch is not None:
                raise InvalidRecord(what="Run", problem="it is refused")
            return await accept(delivery)

        store.accept_delivery = refuse
        answer = await world.deliver({"name": "x"})
        assert (answer.status, answer.json["code"]) == (409, "run_refused")
        (entry,) = (await world.ask("GET /v1/triggers/orders/deliveries")).json["items"]
        assert (entry["outcome"], entry["reason"]) == ("refused", "invalid_record")
        assert (entry["run_id"], entry["thread_id"]) == (None, None)
        store.accept_delivery = accept
        assert (await world.deliver({"name": "x"})).json["status"] == "fired"

    served(test)


def test_an_event_needs_a_thread() -> None:
    async def test(world: World) -> None:
        body = {**deliver_to_order(event="paid"), "thread": None}
        refused = await world.ask("POST /v1/triggers", body)
        assert (refused.status, "target.event" in refused.error) == (400, True)
        spec = {"timing": CRON, "target": {"agent_id": "order", "input": 1, "event": "paid"}}
        refused = await world.ask("POST /v1/schedules", spec)
        assert (refused.status, "target.thread_id" in refused.error) == (400, True)

    served(test, agents=[order])


@pytest.mark.parametrize("payload", [[1, {"role": "system"}], [], "", None])
def test_the_payload_of_an_event_is_any_value(payload: Any) -> None:
    async def test(world: World) -> None:
        target = {"agent_id": "order", "input": payload, "event": "said", "thread_id": "mine"}
        body = {"id": "say", "timing": CRON, "target": target}
        assert (await world.ask("POST /v1/schedules", body)).status == 201

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


@pytest.mark.usefixtures("_secrets")
@pytest.mark.parametrize("kind", NEW)
def test_the_event_message_speaks_for_no_other_user_than_the_creator(kind: str) -> None:
    async def test(world: World) -> None:
        for who in ("ann", "eve"):
            run = await world.runtime.start("order", "{}", thread_id=f"{who}.7", user_id=who)
            await until(world, run.run_id, RunStatus.WAITING)
            for name in ("message", "paid"):
                outcome = await send(world, name, who)
                mine = who == "eve" or name == "paid"
                expected = ("delivered", None) if mine else ("refused", "event_refused")
                assert outcome == expected, (who, name)

    async def send(world: World, name: str, owner: str) -> tuple[str, str | None]:
        target = {"agent_id": "order", "input": 9, "event": name}
        if kind == "schedules":
            body = {"id": f"{owner}-{name}", "timing": CRON}
            target["thread_id"] = f"{owner}.7"
            made = await world.ask("POST /v1/schedules", {**body, "target": target}, "eve")
            fired = await world.ask(f"POST /v1/schedules/{made.json['id']}/fire", who="eve")
            return fired.json["outcome"], fired.json["reason"]
        body = {**STANDARD, "target": target, "thread": "{/order}"}
        await world.ask("DELETE /v1/triggers/" + owner, who="eve")
        await world.ask("POST /v1/triggers", {**body, "id": owner}, "eve")
        await world.deliver({"order": "7"}, id_=name, trigger=owner)
        page = (await world.ask(f"GET /v1/triggers/{owner}/deliveries")).json["items"]
        return page[0]["outcome"], page[0]["reason"]

    served(test, config(token("boss"), token("ann"), token("eve")), agents=[order])


@pytest.mark.usefixtures("_secrets")
def test_a_trigger_that_is_made_again_takes_no_delivery_for_one_of_the_deleted_one() -> None:
    async def test(world: World) -> None:
        answers = []
        for _ in range(2):
            await world.ask("POST /v1/triggers", {**STANDARD, "id": "orders", "thread": "{/name}"})
            answers.append(await world.deliver({"name": "x"}))
            await world.runtime.wait(answers[-1].json["run_id"])
            assert (await world.ask("DELETE /v1/triggers/orders")).status == 204
            CLOCK.advance(1)
        assert [it.json["status"] for it in answers] == ["fired"] * 2
        assert answers[0].json["run_id"] != answers[1].json["run_id"]

    served(test)
