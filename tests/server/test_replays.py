"""Recordings, replays, forks at a point and diffs of runs over HTTP, and who may ask for them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import ask, bearer, config, token

DONE: list[str] = []


@tool
async def charge(amount: int) -> str:
    """Charge."""
    DONE.append(f"charge {amount}")
    return f"charged {amount} ({len(DONE)})"


SECRET = "AKIAIOSFODNN7EXAMPLE"


@tool(effect="none")
async def look(what: str) -> str:
    """Look."""
    DONE.append(f"look {what}")
    return f"saw {what} ({len(DONE)})"


def make_runtime(store: str, rules: Any = None) -> AgentRuntime:
    turn = [
        ToolCalls([("look", {"what": "a"}), ("charge", {"amount": 5})]),
        ToolCalls([("look", {"what": "b"})]),
        "Done.",
    ]
    agent = Agent(
        "a",
        model=ScriptedModel(turn, cycle=True),
        tools=[charge, look],
        plugins=[] if rules is None else [PermissionPlugin()],
        config={} if rules is None else {"permission": rules},
    )
    told = [ToolCalls([("look", {"what": SECRET})]), f"It is {SECRET}."]
    leaky = Agent("leaky", model=ScriptedModel(told, cycle=True), tools=[look])
    return AgentRuntime([agent, leaky], store=store, history="full")


def tokens() -> Any:
    return config(
        token("all", access=frozenset({*Access} - {Access.OPEN, Access.KNOWN})),
        token("reader", access=frozenset({Access.READ})),
        token("editor", access=frozenset({Access.READ, Access.CONFIG})),
        token("tester", access=frozenset({Access.READ, Access.EVAL})),
        token("bob", tenant_id="bob", access=frozenset({Access.READ, Access.INVOKE})),
    )


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"


async def play(app: Any, agent_id: str = "a") -> str:
    thread_id = "t" if agent_id == "a" else agent_id
    body = {"agentId": agent_id, "threadId": thread_id, "messages": [{"content": "hi"}]}
    headers = bearer("all") | {"accept": "application/json"}
    answer = await ask(app, "POST", "/v1/runs", headers=headers, body=body)
    assert answer.status == 200, answer.json
    return str(answer.json["run_id"])


def test_a_replay_that_would_try_nothing_is_refused_and_names_the_mode() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), make_runtime("memory://") as runtime:
            app = runtime.asgi(tokens())
            path = f"/v1/runs/{await play(app)}/replay"
            refusals: dict[str, dict[str, Any]] = {
                "what_if": {"from_step": 2},
                "model_only": {"tools": {"source": "live"}},
                "ended after 3 steps": {"mode": "what_if", "from_step": 4},
            }
            for said, body in refusals.items():
                answer = await ask(app, "POST", path, headers=bearer("tester"), body=body)
                assert (answer.status, said in str(answer.json)) == (400, True), answer.json

    asyncio.run(main())


def test_recording_replay_and_diff(store: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), make_runtime(store) as runtime:
            app = runtime.asgi(tokens())
            first, second = await play(app), await play(app)
            path = f"/v1/runs/{first}"
            found = await ask(app, "GET", f"{path}/recording", headers=bearer("editor"))
            assert (found.status, found.json["format"]) == (200, "recording/1")
            assert [len(it.get("calls", ())) for it in found.json["steps"]] == [2, 1, 0]
            count = len(DONE)
            begun = await ask(app, "POST", f"{path}/replay", headers=bearer("tester"), body={})
            assert (begun.status, begun.json["replay"]["status"]) == (202, "running"), begun.json
            same = await follow(app, begun.json["replay"])
            assert (same["replay"]["status"], same["result"]["is_same"]) == ("done", True), same
            assert same["result"]["diff"]["after"]["steps"] == 3
            assert len(DONE) == count
            place = f"{path}/replays/{begun.json['replay']['replay_id']}"
            replayed = await ask(app, "GET", f"{place}/recording", headers=bearer("editor"))
            assert len(replayed.json["steps"]) == 3
            listed = await ask(app, "GET", f"{path}/replays", headers=bearer("editor"))
            assert [it["status"] for it in listed.json["replays"]] == ["done"]
            diff = await ask(app, "GET", f"{path}/diff/{second}", headers=bearer("editor"))
            assert diff.status == 200
            assert [it["change"] for it in diff.json["steps"]] == ["changed", "changed", "same"]
            assert diff.json["before"]["run_id"] == first

    asyncio.run(main())


def test_no_way_to_read_a_run_shows_its_secrets_without_the_scope_admin(store: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), make_runtime(store) as runtime:
            app = runtime.asgi(tokens())
            first, second = await play(app, "leaky"), await play(app)
            path = f"/v1/runs/{first}"
            spec = {"mode": "what_if", "variant": {"name": "v", "instructions": f"Use {SECRET}."}}
            begun = await ask(app, "POST", f"{path}/replay", headers=bearer("tester"), body=spec)
            followed = await follow(app, begun.json["replay"])
            assert followed["replay"]["status"] == "done", followed
            place = f"{path}/replays/{begun.json['replay']['replay_id']}"
            for rest in ("", "?redact=pii", "?redact=pii.ssn,secrets.aws_key", "?redact=,"):
                for part in (f"{path}/recording", f"{place}/recording"):
                    found = await ask(app, "GET", f"{part}{rest}", headers=bearer("editor"))
                    assert found.status == 200
                    assert SECRET not in found.body.decode(), (part, rest)
            for part in (place, f"{path}/diff/{second}", f"/v1/runs/{second}/diff/{first}"):
                found = await ask(app, "GET", part, headers=bearer("editor"))
                assert found.status == 200
                assert SECRET not in found.body.decode(), part
            raw = await ask(app, "GET", f"{path}/recording?redact=none", headers=bearer("all"))
            assert SECRET in raw.body.decode()

    asyncio.run(main())


def test_who_may_ask(store: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), make_runtime(store) as runtime:
            app = runtime.asgi(tokens())
            run_id = await play(app)
            for who, method, rest, status in (
                ("reader", "GET", "recording", 403),
                ("tester", "GET", "recording", 403),
                ("editor", "GET", "recording?redact=none", 403),
                ("all", "GET", "recording?redact=none", 200),
                ("editor", "GET", "recording?redact=nonsense", 400),
                ("editor", "POST", "replay", 403),
                ("tester", "GET", "replays", 403),
                ("editor", "GET", "replays/none", 404),
                ("editor", "GET", "replays/none?wait_ms=99999", 400),
                ("editor", "GET", "replays/none/recording", 404),
                ("editor", "POST", "replays/none/cancel", 403),
                ("tester", "POST", "replays/none/cancel", 404),
                ("reader", "GET", f"diff/{run_id}", 403),
                ("bob", "POST", "fork", 404),
                ("reader", "POST", "fork", 403),
            ):
                body = {} if method == "POST" else None
                path = f"/v1/runs/{run_id}/{rest}"
                answer = await ask(app, method, path, headers=bearer(who), body=body)
                assert answer.status == status, (who, rest, answer.json)
            effects = {"mode": "model_only", "tools": {"allow_effects": True}}
            answer = await ask(
                app, "POST", f"/v1/runs/{run_id}/replay", headers=bearer("tester"), body=effects
            )
            assert answer.status == 403

    asyncio.run(main())


@pytest.mark.parametrize(
    ("denied", "parts_by"),
    [('charge(amount = "5")', "result"), ("charge", "request")],
    ids=["these_arguments", "the_tool"],
)
def test_a_replay_with_a_rule_that_denies_a_recorded_call_differs_in_that_call_alone(
    store: str, denied: str, parts_by: str
) -> None:
    async def main() -> None:
        allow: dict[str, Any] = {"default_behavior": "allow"}
        async with asyncio.timeout(60), make_runtime(store, allow) as runtime:
            app = runtime.asgi(tokens())
            path, count = f"/v1/runs/{await play(app)}/replay", len(DONE)
            rules = {**allow, "rules": [{"tool": denied, "behavior": "deny"}]}
            variant = {"name": "stricter", "changes": {"sections": {"permission": rules}}}
            body = {"mode": "what_if", "variant": variant}
            begun = await ask(app, "POST", path, headers=bearer("tester"), body=body)
            assert begun.status == 202, begun.json
            result = (await follow(app, begun.json["replay"]))["result"]
            # The model is not shown a tool whose calls would all be denied.
            (first,) = result["divergences"]
            assert (first["step"], first["kind"]) == (1, parts_by), first
            diff = result["diff"]
            assert [it["change"] for it in diff["steps"]] == ["changed", "same", "same"]
            (call,) = diff["steps"][0]["calls"]
            assert (call["change"], call["tool"]) == ("changed", "charge")
            assert call["before"]["result"].startswith("charged 5")
            assert call["after"]["arguments"] == {"amount": 5}
            assert call["after"]["result"].startswith("Denied: tool 'charge' is denied")
            assert diff["state"] == []
            assert len(DONE) == count
            # The rules of the run itself are as they were.
            same = await ask(app, "POST", path, headers=bearer("tester"), body={})
            assert (await follow(app, same.json["replay"]))["result"]["is_same"]

    asyncio.run(main())


def test_a_fork_at_a_point_goes_on_and_asks_before_effects(store: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), make_runtime(store) as runtime:
            app = runtime.asgi(tokens())
            run_id = await play(app)
            before = await runtime.store.checkout("t")
            path = f"/v1/runs/{run_id}/fork"
            at: dict[str, Any] = {"step": 1, "results": 1}
            made = await ask(app, "POST", path, headers=bearer("all"), body={"at": at})
            assert made.status == 202, made.json
            new, thread_id = made.json["run_id"], made.json["thread"]["id"]
            waiting = await wait_for(app, new, "waiting")
            assert waiting["waiting"]["reason"] == "tool_permission"
            tickets = await runtime.store.list_tickets(thread_id)
            assert [it.tool_name for it in tickets] == ["charge"]
            assert "This is a fork" in tickets[0].suspension.message
            free = {"at": at, "allow_effects": True}
            made = await ask(app, "POST", path, headers=bearer("all"), body=free)
            done = await wait_for(app, made.json["run_id"], "done")
            assert done["forked_from"] == {"run_id": run_id, "step": 1, "results": 1}
            assert await runtime.store.checkout("t") == before
            bad = {"at": {"step": 9}}
            answer = await ask(app, "POST", path, headers=bearer("all"), body=bad)
            assert answer.status == 400, answer.json

    asyncio.run(main())


async def follow(app: Any, replay: Any) -> Any:
    path = f"/v1/runs/{replay['run_id']}/replays/{replay['replay_id']}?wait_ms=30000"
    found = await ask(app, "GET", path, headers=bearer("editor"))
    assert found.status == 200, found.json
    return found.json


async def wait_for(app: Any, run_id: str, status: str) -> Any:
    for _ in range(500):
        found = await ask(app, "GET", f"/v1/runs/{run_id}", headers=bearer("all"))
        if found.json["status"] == status:
            return found.json
        await asyncio.sleep(0.02)
    raise AssertionError(found.json)
