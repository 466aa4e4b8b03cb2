"""What operators ask and do over HTTP: each route once as it is meant, and how it refuses."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.postgres.server import new_schema, server

from awaken import Access, Agent, AgentRuntime, Budget, MailboxConfig, ToolContext, tool
from awaken.contracts.config.audit import AuditAction
from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import EvalMode, EvalSpec
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.worlds import ScriptedTurn, Variant
from awaken.contracts.models.budgets import BudgetScope
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.contracts.storage.dispatch import DispatchStatus, Release
from awaken.contracts.storage.store import Commit, OutboxEntry
from awaken.evals.evaluating import Dataset, keep_dataset
from awaken.extensions.permission import PermissionPlugin
from awaken.services import activity
from awaken.stores.postgres import PostgresStore
from awaken.testing import FakeClock, ScriptedModel, ToolCalls

from .in_process import EVERYTHING, Answer, Request, ask, bearer, config, token

RULES = {
    "default_behavior": "ask",
    "rules": [
        {"tool": "add", "behavior": "allow"},
        {"tool": "wipe", "behavior": "deny"},
        {"tool": 'add(a = "9")', "behavior": "deny"},
    ],
}


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def wipe() -> str:
    """Wipe."""
    return "wiped"


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?") if ctx.resume is None else "done"


class Trail:
    """An audit that remembers, or refuses."""

    def __init__(self) -> None:
        self.events: list[tuple[AuditAction, str, str, Any]] = []
        self.is_away = False

    async def record(self, action: AuditAction, resource: str, **about: Any) -> None:
        if self.is_away:
            raise StoreUnavailable(store="audit", problem="gone")
        assert about["request_id"]
        self.events.append((action, resource, about["actor"], about["details"]))


class World:
    """A server with tokens, and the runtime below it."""

    def __init__(self, runtime: AgentRuntime, app: Any) -> None:
        self.runtime = runtime
        self.app = app
        self.trail = Trail()

    async def ask(self, operation: str, body: Any = None, who: str = "boss", **more: Any) -> Answer:
        method, path = operation.split()
        headers = {**bearer(who), **more}
        return await ask(self.app, method, path, body=body, headers=headers)

    async def get(self, path: str, who: str = "boss") -> Any:
        answer = await self.ask(f"GET {path}", who=who)
        assert answer.status == 200, answer.body
        return answer.json

    async def run(self, agent_id: str, thread_id: str, who: str = "boss") -> Any:
        message = {"role": "user", "content": "go"}
        body = {"agentId": agent_id, "threadId": thread_id, "messages": [message]}
        request = Request(self.app, "POST", "/v1/runs", headers=bearer(who), body=body)
        await asyncio.wait_for(request.task, 10)
        assert request.answer.status == 200, request.answer.body
        return (await self.get(f"/v1/threads/{thread_id}/runs/latest", who))["run_id"]


def agents() -> list[Agent]:
    calls = [ToolCalls([("add", {"a": 1, "b": 2})]), ToolCalls([("add", {"a": 9, "b": 2})])]
    script = [calls[0], "Three.", calls[1], "No."]
    section = {"permission": RULES}
    asking = [*[ToolCalls([("ask_first", {})])] * 4, *["Done."] * 4]
    return [
        Agent(
            "adder", model=ScriptedModel(script, cycle=True), tools=[add, wipe],
            plugins=[PermissionPlugin()], config=section,
        ),
        Agent(
            "asker", model=ScriptedModel(asking, cycle=True),
            tools=[ask_first], budgets=[Budget(scope=BudgetScope.TENANT, tokens=1000)],
        ),
        Agent("talker", model=ScriptedModel(["Hello."], cycle=True)),
    ]  # fmt: skip


def world(scenario: Callable[[World], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        async with AgentRuntime(agents(), **options) as runtime:
            server = config(
                token("boss"),
                token("operator", frozenset({Access.OPERATE, Access.READ})),
                token("tenant", EVERYTHING, tenant_id="ours"),
                token("stranger", EVERYTHING, tenant_id="theirs"),
            )
            opened = World(runtime, runtime.asgi(server))
            msgspec.structs.force_setattr(runtime._services, "audit", opened.trail)
            await scenario(opened)

    asyncio.run(main())


async def dead_letter(it: World, agent_id: str = "talker") -> str:
    """Input whose attempts are used up."""
    receipt = await it.runtime.submit(agent_id, "go", thread_id="dead")
    store = it.runtime.store
    (claimed,) = await store.claim("w", "token", 60_000, limit=1)
    dead = Release(status=DispatchStatus.DEAD_LETTER, error="boom")
    await store.release(claimed.dispatch_id, "token", dead)
    return receipt.dispatch_id


def test_a_dead_letter_is_listed_and_queued_again_once() -> None:
    async def scenario(it: World) -> None:
        dispatch_id = await dead_letter(it)
        whole = await it.get(f"/v1/dispatches/{dispatch_id}")
        assert (whole["status"], whole["last_error"], whole["attempt_count"]) == (
            "DeadLetter", "boom", 1,
        )  # fmt: skip
        (message,) = whole["payload"]["messages"]
        assert (message["role"], message["content"][0]["text"]) == ("user", "go")
        stranger = await it.ask(f"GET /v1/dispatches/{dispatch_id}", who="tenant")
        assert stranger.status == 404
        for path in ("?status=DeadLetter", "?status=dead_letter&agent=talker", "?thread_id=dead"):
            (found,) = (await it.get(f"/v1/dispatches{path}"))["items"]
            assert (found["dispatch_id"], found["status"]) == (dispatch_id, "DeadLetter")
            assert found["last_error"] == "boom"
        assert (await it.get("/v1/dispatches?agent=adder"))["items"] == []
        assert (await it.get("/v1/dispatches", who="tenant"))["items"] == []
        answer = await it.ask(
            f"POST /v1/dispatches/{dispatch_id}/replay", who="operator", **{"x-awaken-actor": "ann"}
        )
        assert (answer.status, answer.json["replays"]) == (202, dispatch_id)
        (event,) = it.trail.events
        assert event[:3] == (AuditAction.REPLAY_DEAD, f"dispatches/{dispatch_id}", "operator/ann")
        again = await it.ask(f"POST /v1/dispatches/{dispatch_id}/replay")
        assert again.status in (404, 409)
        gone = await it.ask("POST /v1/dispatches/nobody/replay")
        assert (gone.status, gone.json["code"]) == (404, "record_not_found")
        assert (await it.ask("GET /v1/dispatches?status=odd")).status == 400

    world(scenario, has_worker=False)


def test_a_queued_delivery_is_cancelled() -> None:
    async def scenario(it: World) -> None:
        receipt = await it.runtime.submit("talker", "go", thread_id="t")
        path = f"POST /v1/dispatches/{receipt.dispatch_id}/cancel"
        assert (await it.ask(path)).json["status"] == "cancel_requested"
        assert (await it.ask(path)).json["status"] == "skipped"
        (found,) = (await it.get("/v1/dispatches"))["items"]
        assert found["status"] == "Cancelled"
        assert (await it.ask("POST /v1/dispatches/nobody/cancel")).status == 404

    world(scenario, has_worker=False)


def test_nothing_is_done_that_the_audit_could_not_record() -> None:
    async def scenario(it: World) -> None:
        dispatch_id = await dead_letter(it)
        run_id = await it.run("talker", "t")
        it.trail.is_away = True
        for operation, body in (
            (f"POST /v1/dispatches/{dispatch_id}/replay", None),
            (f"POST /v1/traces/{run_id}/pin", None),
            ("POST /v1/batch", {"action": "replay", "ids": [dispatch_id]}),
            ("POST /v1/batch", {"action": "delete", "ids": ["t"]}),
        ):
            answer = await it.ask(operation, body)
            assert answer.status == 503, (operation, answer.body)
        (only,) = (await it.get("/v1/dispatches"))["items"]
        assert only["status"] == "DeadLetter"
        assert (await it.get("/v1/threads/t"))["id"] == "t"

    world(scenario, has_worker=False)


def test_an_outbox_command_that_was_given_up_is_tried_again() -> None:
    async def scenario(it: World) -> None:
        await it.run("talker", "t")
        store = it.runtime.store
        thread = await store.load_thread("t")
        assert thread is not None
        for number, where in enumerate(("t", "@ours:t")):
            payload = {"order": "letter", "thread_id": where, "payload": 1}
            entry = OutboxEntry(entry_id=f"e{number}", kind="letter", payload=payload)
            await commit_outbox(it, entry)
            await store.save_outbox(
                msgspec.structs.replace(entry, is_dead=True, attempts=3, error="no way")
            )
        found = (await it.get("/v1/outbox/dead"))["items"]
        assert [(row["id"], row["attempts"], row["thread_id"]) for row in found] == [
            ("e0", 3, "t"), ("e1", 3, "@ours:t"),
        ]  # fmt: skip
        (own,) = (await it.get("/v1/outbox/dead", who="tenant"))["items"]
        assert own["id"] == "e1"
        assert "payload" not in own
        assert (await it.get("/v1/outbox/dead", who="stranger"))["items"] == []
        page = await it.get("/v1/outbox/dead?limit=1")
        rest = await it.get(f"/v1/outbox/dead?limit=1&cursor={page['next_cursor']}")
        assert (rest["items"][0]["id"], rest["next_cursor"]) == ("e1", None)
        answer = await it.ask("POST /v1/outbox/e0/retry", who="operator")
        assert (answer.status, answer.json["is_dead"]) == (202, False)
        assert (await it.ask("POST /v1/outbox/e0/retry")).status == 404
        assert it.trail.events[0][:2] == (AuditAction.RETRY_OUTBOX, "outbox/e0")

    world(scenario, has_worker=False)


async def commit_outbox(it: World, entry: OutboxEntry) -> None:
    checkout = await it.runtime.store.checkout("t")
    commit = Commit(
        commit_id=f"c-{entry.entry_id}", thread_id="t", committed_at=1, outbox=(entry,),
        expected_version=checkout.thread.version,
    )  # fmt: skip
    await it.runtime.store.commit(commit)


def test_workers_are_listed_to_callers_without_a_tenant(tmp_path: Path) -> None:
    async def scenario(it: World) -> None:
        assert it.runtime._parts.report is not None
        await it.run("adder", "t")
        await it.runtime._parts.report.write()
        (found,) = (await it.get("/v1/system/workers"))["items"]
        assert found["agents"] == ["adder", "asker", "talker"]
        assert found["slots"] == MailboxConfig().concurrency
        assert found["statistics"] is None
        assert (await it.ask("GET /v1/system/workers", who="tenant")).status == 403
        everywhere = await it.get("/v1/agents/adder/runtime-stats?scope=all")
        assert everywhere["inference_count"] == 2, "its own entry counts once"

    world(scenario, store=f"sqlite:///{tmp_path}/a.db")


def test_the_cluster_and_its_scale_are_shown_to_callers_without_a_tenant(tmp_path: Path) -> None:
    async def scenario(it: World) -> None:
        assert it.runtime._parts.report is not None
        await it.runtime._parts.report.write()
        found = await it.get("/v1/system/cluster")
        (node,) = found["nodes"]
        assert (found["leases"], node["kind"], node["state"]) == ("thread", "server", "ok")
        assert found["carrier"] == {"kind": "memory", "is_up": True, "dropped": 0}
        assert found["problems"] == []
        assert await it.get("/v1/system/scale") == {
            "due": 0, "oldest_due_ms": 0, "busy": 0, "slots": node["slots"], "desired_slots": 0,
        }  # fmt: skip
        for path in ("cluster", "scale"):
            assert (await it.ask(f"GET /v1/system/{path}", who="tenant")).status == 403

    world(scenario, store=f"sqlite:///{tmp_path}/a.db")


def test_a_carrier_that_is_down_leaves_a_node_degraded_but_working() -> None:
    async def scenario(it: World) -> None:
        assert (await it.get("/health"))["components"]["carrier"] == "ok"
        await it.runtime._node.bus.close()
        answer = await it.ask("GET /health")
        assert (answer.status, answer.json["status"]) == (200, "degraded")
        assert answer.json["components"]["carrier"] == "down"
        assert "carrier_down" in {
            one["code"] for one in (await it.get("/v1/system/cluster"))["problems"]
        }
        text = (await it.ask("GET /metrics")).body.decode()
        assert "awaken_carrier_up 0" in text
        assert 'awaken_slots{state="busy"} 0' in text
        assert "awaken_node_over_total 0" in text
        assert "awaken_beat_age_seconds" in text
        assert "awaken_queue_due 0" in text
        assert "awaken_queue_oldest_seconds 0" in text

    world(scenario, store=PostgresStore(server().url, schema=new_schema()))


def test_an_operator_opens_closes_and_resets_a_breaker() -> None:
    async def scenario(it: World) -> None:
        await it.run("talker", "t")
        models = (await it.get("/v1/system/models"))["items"]
        called = [row for row in models if row["calls"]]
        (model,) = called
        assert (model["state"], model["errors"]) == ("closed", 0)
        path = f"POST /v1/system/models/{model['model_id']}/breaker"
        opened = await it.ask(path, {"action": "open"}, who="operator")
        assert (opened.status, opened.json["state"], opened.json["error"]) == (
            200, "open", "operator",
        )  # fmt: skip
        assert opened.json["retry_at"]
        assert not it.runtime._engine.services.health.is_available(model["model_id"])
        closed = await it.ask(path, {"action": "close"})
        assert (closed.json["state"], closed.json["retry_at"]) == ("closed", None)
        assert (await it.ask(path, {"action": "reset"})).json["error"] is None
        assert it.runtime._engine.services.health.is_available(model["model_id"])
        assert [event[3] for event in it.trail.events] == [
            {"set_to": "open"}, {"set_to": "close"}, {"set_to": "reset"},
        ]  # fmt: skip
        for body in ({"action": "explode"}, {}, {"action": "open", "x": 1}):
            assert (await it.ask(path, body)).status in (400, 422)
        assert (
            await it.ask("POST /v1/system/models/x/y/breaker", {"action": "open"})
        ).status == 404
        assert len(it.trail.events) == 3

    world(scenario)


def test_statistics_are_shown_by_agent_with_the_fields_of_the_other_implementation() -> None:
    async def scenario(it: World) -> None:
        await it.run("adder", "t")
        found = await it.get("/v1/agents/adder/runtime-stats?window=1h")
        assert (found["window_seconds"], found["bucket_window_seconds"]) == (3600, 600)
        assert (found["inference_count"], found["error_count"], found["run_count"]) == (2, 0, 1)
        (row,) = found["tool_calls_by_tool"]
        assert (row["tool"], row["call_count"], row["failure_count"]) == ("add", 1, 0)
        assert sum(b["count"] for b in found["inference_duration_histogram"]) == 2
        assert found["inference_duration_histogram"][-1]["upper_bound_ms"] is None
        every = await it.get("/v1/agents/runtime-stats")
        assert [row["agent_id"] for row in every["agents"]] == ["adder"]
        assert (await it.get("/v1/agents/talker/runtime-stats"))["inference_count"] == 0
        assert (await it.ask("GET /v1/agents/nobody/runtime-stats")).status == 404
        for bad in ("window=0s", "window=x", "window=-1h", "scope=me", "scope=all&window=1h"):
            assert (await it.ask(f"GET /v1/agents/adder/runtime-stats?{bad}")).status == 400, bad

    world(scenario)


def test_rules_are_previewed_and_compared_over_past_calls() -> None:
    async def scenario(it: World) -> None:
        preview = await it.get("/v1/agents/adder/permission-preview")
        assert preview == {
            "agent_id": "adder",
            "permission_plugin_enabled": True,
            "default_behavior": "ask",
            "candidate_tools": ["add", "wipe"],
            "unconditionally_denied": ["wipe"],
            "effective_tools": ["add"],
            "args_conditional_rules": [
                {"tool": "add", "behavior": "deny", "pattern": 'add(a = "9")'}
            ],
            "approvals": [],
        }
        without = await it.get("/v1/agents/talker/permission-preview")
        assert (without["permission_plugin_enabled"], without["default_behavior"]) == (False, None)
        calls = [{"tool": "add", "arguments": {"a": 1}}, {"tool": "add", "arguments": {"a": 9}},
                 {"tool": "other"}]  # fmt: skip
        tried = await it.ask("POST /v1/policy/preview", {"agent": "adder", "calls": calls})
        assert [row["behavior"] for row in tried.json["calls"]] == ["allow", "deny", "ask"]
        for thread in ("t1", "t2"):
            await it.run("adder", thread)
        body = {"agent": "adder", "new": {"default_behavior": "deny", "rules": []}}
        told = (await it.ask("POST /v1/policy/diff", body)).json
        assert told["calls"] == 2
        assert {kind: row["count"] for kind, row in told["newly"].items()} == {
            "allow": 0, "ask": 0, "deny": 1,
        }  # fmt: skip
        assert told["newly"]["deny"]["examples"][0]["call"]["arguments"] == {"a": 1, "b": 2}
        backward = {"new": RULES, "old": body["new"], "limit": 1}
        assert (await it.ask("POST /v1/policy/diff", backward)).json["calls"] == 1
        for bad, word in (
            ({"new": {}}, "old"),
            ({"new": {"rules": [{"tool": "add(", "behavior": "allow"}]}, "old": {}}, "new"),
            ({"new": {}, "old": {"rules": 3}}, "old"),
        ):
            refused = await it.ask("POST /v1/policy/diff", bad)
            assert refused.status == 400, bad
            assert word in refused.error
        missing = await it.ask("POST /v1/policy/preview", {"agent": "nobody"})
        assert missing.status == 404
        lacks = await it.ask("POST /v1/policy/preview", {"agent": "talker"})
        assert lacks.status == 400

    world(scenario)


def test_budgets_show_what_a_tenant_has_used() -> None:
    async def scenario(it: World) -> None:
        await it.run("asker", "t", who="tenant")
        (row,) = (await it.get("/v1/budgets", who="tenant"))["items"]
        assert (row["agent_id"], row["tenant_id"]) == ("asker", "ours")
        assert "used" in row
        (row,) = (await it.get("/v1/budgets?tenant_id=ours"))["items"]
        assert row["tenant_id"] == "ours"
        (row,) = (await it.get("/v1/budgets"))["items"]
        assert "used" not in row
        assert (await it.ask("GET /v1/budgets?tenant_id=ours", who="stranger")).status == 403

    world(scenario)


def test_a_trace_is_read_in_pages_and_pinned_against_the_purge(tmp_path: Path) -> None:
    async def scenario(it: World) -> None:
        first = await it.run("adder", "t")
        await it.run("talker", "other")
        runs = (await it.get("/v1/traces"))["runs"]
        assert [row["agent_id"] for row in runs] == ["talker", "adder"]
        assert runs[0]["started_at"] < 10**11, "in seconds"
        (row,) = (await it.get("/v1/traces?agent_id=adder&since=2020-01-01T00:00:00Z"))["runs"]
        assert row["run_id"] == first
        whole = await it.ask(f"GET /v1/traces/{first}")
        lines = [json.loads(line) for line in whole.body.splitlines()]
        assert whole.headers["content-type"] == "application/x-ndjson"
        assert whole.headers["x-trace-total-events"] == str(len(lines))
        assert "x-trace-next-offset" not in whole.headers
        assert (lines[0]["kind"], lines[-1]["kind"]) == ("run_start", "run_finish")
        paged, offset = [], 0
        while offset is not None:
            page = await it.ask(f"GET /v1/traces/{first}?offset={offset}&limit=2")
            paged += page.body.splitlines()
            found = page.headers.get("x-trace-next-offset")
            offset = None if found is None else int(found)
        assert paged == whole.body.splitlines()
        assert (await it.ask(f"POST /v1/traces/{first}/pin")).status == 204
        assert (await it.ask(f"POST /v1/traces/{first}/pin")).status == 204
        it.runtime._node.start_worker(it.runtime._engine)
        sweeper = it.runtime._node._sweeper
        assert sweeper is not None
        await sweeper.purge()
        assert await it.runtime.store.list_events("other") == (), "what is not pinned goes"
        assert (await it.ask(f"GET /v1/traces/{first}")).body == whole.body
        for bad in ("since=yesterday", "since=2020-01-01", "limit=0", "limit=9999"):
            assert (await it.ask(f"GET /v1/traces?{bad}")).status == 400, bad
        assert (await it.ask("GET /v1/traces/nobody")).status == 404
        assert (await it.ask("POST /v1/traces/nobody/pin")).status == 404

    keep = MailboxConfig(retention_ms=1)
    world(scenario, store=f"sqlite:///{tmp_path}/a.db", mailbox=keep, has_worker=False)


def test_a_batch_cancels_decides_replays_and_deletes_with_a_receipt_for_each() -> None:
    async def scenario(it: World) -> None:
        runs = [await it.run("asker", f"t{number}") for number in range(4)]
        tickets = [row["ticket_id"] for row in (await it.get("/v1/tickets"))["items"]]
        assert len(tickets) == 4
        dry = {"action": "cancel", "filter": {"agent_id": "asker"}, "dry_run": True}
        planned = await it.ask("POST /v1/batch", dry)
        assert (planned.status, {row["status"] for row in planned.json["items"]}) == (
            200, {"planned"},
        )  # fmt: skip
        assert it.trail.events == []
        body = {"action": "cancel", "ids": [runs[0], runs[0], "nobody"]}
        done = await it.ask("POST /v1/batch", body)
        assert done.status == 202
        assert [(row["id"], row["status"], row.get("code")) for row in done.json["items"]] == [
            (runs[0], "done", None), ("nobody", "refused", "unknown_run"),
        ]  # fmt: skip
        decide = {"action": "decide", "filter": {"tool": "ask_first", "thread_id": "t1"},
                  "decision": {"action": "resume", "result": "yes"}}  # fmt: skip
        decided = await it.ask("POST /v1/batch", decide)
        assert [row["status"] for row in decided.json["items"]] == ["done"]
        async with asyncio.timeout(10):
            await it.runtime.wait(runs[1])
        assert (await it.get(f"/v1/runs/{runs[1]}"))["status"] == "done"
        left = await it.ask("POST /v1/batch", {"action": "cancel", "filter": {}})
        assert {row["id"] for row in left.json["items"]} == set(runs[2:])
        gone = await it.ask("POST /v1/batch", {"action": "delete", "ids": ["t0", "t1", "nobody"]})
        assert [row["status"] for row in gone.json["items"]] == ["done", "done", "refused"]
        assert [event[1] for event in it.trail.events] == [
            "batch/cancel", "batch/decide", "batch/cancel", "batch/delete",
        ]  # fmt: skip

    world(scenario)


def test_a_batch_decides_only_on_the_arguments_that_were_seen() -> None:
    async def scenario(it: World) -> None:
        for number in range(3):
            await it.run("asker", f"t{number}")
        rows = (await it.get("/v1/tickets"))["items"]
        seen, other, unseen = (row["ticket_id"] for row in rows)
        hashes = {seen: rows[0]["arguments_hash"], other: "0" * 32}
        decision = {"action": "resume", "result": "yes", "arguments_hashes": hashes}
        body = {"action": "decide", "ids": [seen, other, unseen], "decision": decision}
        done = await it.ask("POST /v1/batch", body)
        assert [(row["status"], row.get("code")) for row in done.json["items"]] == [
            ("done", None), ("refused", "arguments_changed"), ("refused", "arguments_changed"),
        ]  # fmt: skip

    world(scenario)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "cancel"}, "ids"),
        ({"action": "cancel", "ids": ["x"], "filter": {}}, "ids"),
        ({"action": "cancel", "filter": {"tool": "x"}}, "tool"),
        ({"action": "delete", "filter": {}}, "every thread"),
        ({"action": "decide", "ids": ["x"]}, "decision"),
        ({"action": "cancel", "ids": ["x"], "decision": {}}, "decision"),
        ({"action": "cancel", "ids": ["x"] * 1001}, "1000"),
        ({"action": "dance", "ids": []}, "dance"),
    ],
)
def test_a_batch_that_is_not_clear_is_refused(body: Any, field: str) -> None:
    async def scenario(it: World) -> None:
        answer = await it.ask("POST /v1/batch", body)
        assert answer.status in (400, 422), answer.body
        assert field in answer.error
        assert it.trail.events == []

    world(scenario)


def test_a_batch_needs_the_scope_of_its_action_and_sees_only_its_tenant() -> None:
    async def scenario(it: World) -> None:
        run_id = await it.run("asker", "t", who="tenant")
        for action in ("cancel", "delete"):
            refused = await it.ask("POST /v1/batch", {"action": action, "ids": []}, who="operator")
            assert refused.status == 403
        for action in ("replay", "retry"):
            refused = await it.ask("POST /v1/batch", {"action": action, "ids": []}, who="tenant")
            assert refused.status == 403
        for given in ({"filter": {}}, {"ids": [run_id]}, {"ids": [f"@ours:{run_id}"]}):
            other = await it.ask("POST /v1/batch", {"action": "cancel", **given}, who="stranger")
            assert all(row["status"] == "refused" for row in other.json["items"])
        own = await it.ask("POST /v1/batch", {"action": "cancel", "filter": {}}, who="tenant")
        assert [(row["id"], row["status"]) for row in own.json["items"]] == [(run_id, "done")]

    world(scenario)


async def frames_of(request: Request, wanted: Callable[[list[Any]], bool]) -> list[Any]:
    """The hints of a stream until they are what is waited for."""
    async with asyncio.timeout(10):
        while True:
            hints = [
                json.loads(line.removeprefix("data: "))
                for line in request.answer.body.decode().splitlines()
                if line.startswith("data: {")
            ]
            if wanted(hints):
                return hints
            request.got_body.clear()
            await request.got_body.wait()


def test_hints_say_what_changed_to_those_who_may_know() -> None:
    async def scenario(it: World) -> None:
        await it.app.open()
        watchers = it.runtime._engine.services.watchers.commits
        before = len(watchers)
        streams = {
            who: Request(it.app, "GET", "/v1/activity/stream", headers=bearer(who))
            for who in ("boss", "tenant", "stranger")
        }
        for stream in streams.values():
            assert (await stream.begun()).headers["content-type"].startswith("text/event-stream")
        run_id = await it.run("asker", "t", who="tenant")
        own = await frames_of(
            streams["tenant"], lambda it: {row["kind"] for row in it} >= {"run", "ticket"}
        )
        assert any(row["ids"] == {"run_id": run_id, "thread_id": "t"} for row in own)
        every = await frames_of(streams["boss"], lambda it: len(it) >= 2)
        assert {row["ids"]["thread_id"] for row in every} == {"@ours:t"}
        bus = it.runtime._node.bus
        bus.tell(Signal(kind=SignalKind.CONFIG_CHANGED))
        await frames_of(streams["boss"], lambda it: any(row["kind"] == "config" for row in it))
        assert b"id:" not in streams["boss"].answer.body
        for stream in streams.values():
            await stream.leave()
        assert b"data" not in streams["stranger"].answer.body
        assert b"config" not in streams["tenant"].answer.body
        assert len(watchers) == before, "a stream that nobody reads costs commits nothing"

    world(scenario)


def test_hints_say_which_evals_were_made_began_and_ended() -> None:
    async def scenario(it: World) -> None:
        await it.app.open()
        stream = Request(it.app, "GET", "/v1/activity/stream", headers=bearer("boss"))
        await stream.begun()
        case = Case(id="c", user_input="hi", provider_script=(ScriptedTurn(text="yes"),))
        says = ScorerSpec(scorer="contains", options={"phrases": ["yes"]})
        dataset = Dataset(cases=(case,), id="d", scorers=(says,))
        await keep_dataset(it.runtime.evals.parts.evals, dataset)
        variants = (Variant(name="v", agent_id="asker"),)
        spec = EvalSpec(dataset_id="d", variants=variants, mode=EvalMode.SCRIPTED)
        made = await it.runtime.evals.create(spec)

        def is_there(rows: list[Any], status: str) -> bool:
            wanted = ("eval", {"eval_id": made.eval_id}, status)
            return any((row["kind"], row["ids"], row["status"]) == wanted for row in rows)

        await frames_of(stream, lambda rows: is_there(rows, "planned"))
        it.runtime.evals.start(made.eval_id)
        await frames_of(stream, lambda rows: is_there(rows, "done"))
        await stream.leave()

    world(scenario)


def test_a_reader_that_is_far_behind_is_told_so_and_hints_about_one_object_are_one() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        reader = activity.ActivityReader(None)
        hint = activity.ActivityHint(
            kind=activity.ActivityKind.RUN, ids={"run_id": "r"}, status="done", at=clock.now_ms()
        )
        for _ in range(10):
            reader.add(hint)
        reader.add(msgspec.structs.replace(hint, status=None))
        batches = reader.batches()
        assert await anext(batches) == (False, (hint,))
        for number in range(activity.PENDING_MAX + 1):
            reader.add(msgspec.structs.replace(hint, ids={"run_id": str(number)}))
        is_lagged, hints = await anext(batches)
        assert (is_lagged, len(hints)) == (True, 1)
        reader.close()
        assert [it async for it in batches] == []

    asyncio.run(scenario())


def test_a_stopping_server_ends_the_stream_of_hints() -> None:
    async def scenario(it: World) -> None:
        stream = Request(it.app, "GET", "/v1/activity/stream", headers=bearer("boss"))
        await stream.begun()
        await it.app.close()
        await asyncio.wait_for(stream.task, 5)

    world(scenario)


def test_the_system_says_what_is_served() -> None:
    async def scenario(it: World) -> None:
        info = await it.get("/v1/system/info")
        assert (info["scope_id"], info["runtime_stats_enabled"]) == ("default", True)
        assert (await it.get("/v1/system/info", who="tenant"))["scope_id"] == "ours"
        assert {"native", "operations"} <= set((await it.get("/v1/system/modules"))["modules"])

    world(scenario)
