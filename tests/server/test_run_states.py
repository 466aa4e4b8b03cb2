"""State over time over HTTP: values at each step, what changed, and who may see it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.errors import InvalidInput
from awaken.plugins import Plugin, PluginRegistrar, StateScope
from awaken.stores import MemoryStore, Store
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Answer, ask, bearer, config, token

NOTES: StateKey[list[str], str] = StateKey(
    "notes", default=[], scope=StateScope.THREAD, apply=lambda had, new: [*had, new]
)
TRIES: StateKey[int, int] = StateKey("tries", default=0)
SECRET: StateKey[str, str] = StateKey("secret", default="", private=True)
STEPS = 3


class Keys(Plugin):
    """Declares the keys."""

    name = "keys"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(NOTES)
        registrar.key(TRIES)
        registrar.key(SECRET)


@tool
def note(ctx: ToolContext, text: str) -> str:
    """Note something down."""
    ctx.state.update(NOTES, text)
    ctx.state.update(TRIES, len(text))
    if text == "bb":
        ctx.state.update(SECRET, "canary-of-ann")
    return "noted"


def make_runtime(store: Store | str | None = None, **options: Any) -> AgentRuntime:
    turn = [ToolCalls([("note", {"text": "a"})]), ToolCalls([("note", {"text": "bb"})]), "Done."]
    agent = Agent("a", model=ScriptedModel(turn, cycle=True), tools=[note], plugins=[Keys()])
    return AgentRuntime([agent], store=store, **options)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store | str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"


async def play(app: Any, who: str, thread_id: str = "t") -> str:
    body = {"agentId": "a", "threadId": thread_id, "messages": [{"content": "hi"}]}
    headers = bearer(who) | {"accept": "application/json"}
    answer = await ask(app, "POST", "/v1/runs", headers=headers, body=body)
    return str(answer.headers["x-run-id"])


async def read(app: Any, who: str, run_id: str, query: str = "") -> Answer:
    return await ask(app, "GET", f"/v1/runs/{run_id}/state{query}", headers=bearer(who))


def tokens() -> Any:
    return config(
        token("all"),
        token("reader", frozenset({Access.READ})),
        token("editor", frozenset({Access.READ, Access.CONFIG})),
        token("ann", tenant_id="ann"),
        token("bob", tenant_id="bob"),
    )


def test_each_step_shows_its_values_and_what_it_changed(store: Any) -> None:
    async def main() -> None:
        runtime = make_runtime(store, history="full")
        async with asyncio.timeout(30), runtime:
            app = runtime.asgi(tokens())
            first, second = await play(app, "all"), await play(app, "all")
            expected = [
                ([], None),
                (["a"], 1),
                (["a", "bb"], 2),
                (["a", "bb"], 2),
            ]
            for run_id, had in ((first, []), (second, ["a", "bb"])):
                for step, (notes, tries) in enumerate(expected):
                    shown = (await read(app, "all", run_id, f"?step={step}")).json
                    assert (shown["step"], shown["is_complete"]) == (step, True)
                    values = shown["values"]
                    assert values["thread"].get("notes", []) == [*had, *notes], (run_id, step)
                    assert values["run"].get("tries") == tries
                    is_changed = step in (1, 2)
                    assert shown["changed"] == {
                        "step": step,
                        "thread": ["notes"] if is_changed else [],
                        "run": [[], ["tries"], ["secret", "tries"], []][step],
                    }
                latest = (await read(app, "all", run_id)).json
                assert latest["step"] == STEPS
                assert [it["step"] for it in latest["steps"]] == [1, 2]
                assert (await read(app, "all", run_id, "?step=4")).status == 404
                assert (await read(app, "all", run_id, "?step=-1")).status == 400

    asyncio.run(main())


def test_private_values_are_masked_without_the_scope_admin(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        runtime = make_runtime(store, history="full")
        async with asyncio.timeout(30), runtime:
            app = runtime.asgi(tokens())
            run_id = await play(app, "all")
            whole = (await read(app, "all", run_id)).json
            assert (whole["values"]["run"]["secret"], whole["masked"]) == ("canary-of-ann", [])
            answer = await read(app, "editor", run_id)
            assert b"canary" not in answer.body
            assert (answer.json["values"]["run"]["secret"], answer.json["masked"]) == (
                "[hidden]", ["secret"],
            )  # fmt: skip
            assert answer.json["values"]["run"]["tries"] == 2
            # A process that does not know a key cannot tell whether it is private.
            monkeypatch.setattr("awaken.services.run_states.list_living_keys", lambda _: ())
            unknown = (await read(app, "editor", run_id)).json
            assert {"notes", "secret", "tries"} <= set(unknown["masked"])
            assert set(unknown["values"]["thread"].values()) == {"[hidden]"}

    asyncio.run(main())


def test_a_branch_at_a_run_has_the_state_that_the_run_found(store: Any) -> None:
    async def main() -> None:
        runtime = make_runtime(store, history="full")
        async with asyncio.timeout(30), runtime:
            app = runtime.asgi(tokens())
            runs = [await play(app, "all") for _ in range(3)]
            for n, run_id in enumerate(runs):
                path = f"/v1/runs/{run_id}/fork"
                made = (await ask(app, "POST", path, headers=bearer("all"))).json
                assert made["is_state_exact"] is True
                checkout = await runtime.store.checkout(made["thread"]["id"])
                assert checkout is not None
                stored = checkout.state.get("notes")
                notes = [] if stored is None else NOTES.decode(stored)
                assert notes == ["a", "bb"] * n

    asyncio.run(main())


def test_a_lean_history_says_so_and_forks_with_the_newest_state() -> None:
    async def main() -> None:
        runtime = make_runtime()
        async with asyncio.timeout(30), runtime:
            app = runtime.asgi(tokens())
            run_id = await play(app, "all")
            shown = (await read(app, "all", run_id, "?step=1")).json
            assert (shown["is_complete"], shown["reason"]) == (False, "not_kept")
            await play(app, "all")
            made = await ask(app, "POST", f"/v1/runs/{run_id}/fork", headers=bearer("all"))
            # The first run found no state, which is known without a history.
            assert made.json["is_state_exact"] is True
            shown = (await read(app, "all", await play(app, "all"), "?step=0")).json
            assert (shown["is_complete"], shown["reason"]) == (False, "not_kept")

    asyncio.run(main())
    with pytest.raises(InvalidInput, match="'full' or 'lean'"):
        make_runtime(history="some")


def test_a_purged_run_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = make_runtime(f"sqlite:///{tmp_path}/s.db")
        async with asyncio.timeout(30), runtime:
            app = runtime.asgi(tokens())
            run_id = await play(app, "all")
            await runtime.store.purge(await runtime.store.now_ms() + 60_000)
            shown = (await read(app, "all", run_id, "?step=1")).json
            assert (shown["is_complete"], shown["reason"]) == (False, "purged")
            assert (shown["values"], shown["steps"]) == ({"thread": {}, "run": {}}, [])
            assert (await read(app, "all", run_id, "?step=9")).status == 404

    asyncio.run(main())


def test_values_are_for_operators_and_a_run_is_its_tenants() -> None:
    async def main() -> None:
        runtime = make_runtime(MemoryStore(), history="full")
        async with asyncio.timeout(30), runtime:
            app = runtime.asgi(tokens())
            run_id = await play(app, "all")
            shown = await read(app, "reader", run_id)
            assert shown.json["values"] is None
            assert shown.json["steps"][0]["thread"] == ["notes"]
            assert b'"bb"' not in shown.body
            anns = await play(app, "ann")
            own = (await read(app, "ann", anns)).json
            # A tenant's token never has the rights of the deployment.
            assert (own["values"], own["is_complete"]) == (None, True)
            assert (await read(app, "bob", anns)).status == 404
            fork = await ask(app, "POST", f"/v1/runs/{anns}/fork", headers=bearer("bob"))
            assert fork.status == 404

    asyncio.run(main())
