"""What a draft changes is shown before it is published."""

from typing import Any

from awaken.contracts.storage.usage import SETTLE_MS
from awaken.testing import FakeClock, ToolCalls

from .managed_world import RULES, World, world

STRICT = {
    **RULES,
    "rules": [
        {"tool": "look", "behavior": "deny"},
        {"tool": "change", "behavior": "ask"},
        {"tool": "wipe", "behavior": "allow"},
    ],
}


def test_a_new_prompt_changes_one_field_and_the_prompt_cache() -> None:
    async def scenario(at: World) -> None:
        draft = await at.draft(helper={"system_prompt": "Help more."})
        impact = await at.get(f"/v1/config/drafts/{draft}/impact")
        changed = {"id": "helper", "change": "changed", "fields": ["system_prompt"]}
        assert impact["agents"] == [changed]
        assert impact["prompt_cache"] == ["helper"]
        assert (impact["tools"], impact["runs"], impact["cost"]) == ([], [], [])
        assert impact["calls"]["calls"] == 0
        # Nothing was published.
        assert (await at.get("/v1/config/head"))["publication"] is None

    world(scenario)


def test_a_dry_run_and_a_validation_show_the_agents_that_change() -> None:
    async def scenario(at: World) -> None:
        spec = {"id": "new", "model_id": "fast", "system_prompt": "New."}
        for operation in (
            "PUT /v1/config/agents/new?dry_run=true",
            "POST /v1/config/agents/validate",
        ):
            reply = await at.do(operation, spec)
            assert reply["impact"]["agents"] == [{"id": "new", "change": "added", "fields": []}]
            assert "runs" not in reply["impact"]
        draft = await at.draft(helper={"max_rounds": 3})
        reply = await at.do(f"POST /v1/config/drafts/{draft}/validate")
        assert reply["impact"]["agents"][0]["fields"] == ["max_rounds"]
        # The requests begin as before.
        assert reply["impact"]["prompt_cache"] == []

    world(scenario)


def test_new_rules_show_the_tools_and_the_past_calls_that_they_decide_differently() -> None:
    async def scenario(at: World) -> None:
        for n in range(2):
            await at.run("helper", f"t{n}")
        draft = await at.draft(helper={"sections": {"permission": STRICT}})
        impact = await at.get(f"/v1/config/drafts/{draft}/impact")
        assert impact["agents"][0]["fields"] == ["sections/permission", "tools"]
        assert impact["tools"] == [{"agent": "helper", "added": ["wipe"], "removed": ["look"]}]
        calls = impact["calls"]
        assert (calls["calls"], calls["newly_allowed"]) == (4, 0)
        assert (calls["newly_asked"], calls["newly_denied"]) == (2, 2)
        assert {it["call"]["tool"] for it in calls["examples"]} == {"look", "change"}
        assert len(calls["examples"]) == 4
        # Calls of other agents are not looked at.
        other = await at.draft(asker={"system_prompt": "Ask."})
        assert (await at.get(f"/v1/config/drafts/{other}/impact"))["calls"]["calls"] == 0

    script = [ToolCalls([("look", {}), ("change", {})]), "Done."]
    world(scenario, script=script)


def test_runs_that_wait_on_the_base_are_counted_by_agent() -> None:
    async def scenario(at: World) -> None:
        await at.run("asker", "before")
        await at.do("PATCH /v1/config/agents/asker/overrides", {"system_prompt": "Ask."})
        await at.run("asker", "after")
        draft = await at.draft(asker={"system_prompt": "Ask again."})
        impact = await at.get(f"/v1/config/drafts/{draft}/impact")
        # The run that began before the first publication is not pinned to it.
        assert impact["runs"] == [{"agent": "asker", "running": 0, "waiting": 1}]

    world(scenario)


def test_the_cost_of_another_model_is_that_of_the_usage_of_the_last_week() -> None:
    clock = FakeClock()

    async def scenario(at: World) -> None:
        await at.run("helper", "t")
        clock.advance(SETTLE_MS + 1)
        while await at.runtime.store.count_usage():
            pass
        used: Any = (await at.get("/v1/usage?by=agent"))["rows"][0]["sums"]
        spec = {
            "id": "dear", "provider_id": "own", "upstream_model": "dear-1",
            "input_token_price_per_million_usd": 20, "output_token_price_per_million_usd": 40,
        }  # fmt: skip
        await at.do("PUT /v1/config/models/dear", spec)
        draft = await at.draft(helper={"model_id": "dear"})
        impact = await at.get(f"/v1/config/drafts/{draft}/impact")
        (cost,) = impact["cost"]
        nanos = used["input_tokens"] * 2_000 + used["output_tokens"] * 4_000
        assert nanos > 0
        assert cost["before_nanos"] == nanos
        assert cost["after_nanos"] == 10 * nanos
        assert cost["difference_nanos"] == 9 * nanos
        assert impact["agents"][0]["fields"] == ["model_id", "models"]
        # A model without a price: the difference is not known.
        other = await at.draft(helper={"model_id": "best"})
        (cost,) = (await at.get(f"/v1/config/drafts/{other}/impact"))["cost"]
        assert cost["difference_nanos"] is None

    world(scenario, clock=clock)


def test_secrets_that_do_not_exist_here_are_listed_and_warned_of() -> None:
    async def scenario(at: World) -> None:
        spec = {"id": "p", "adapter": "openai", "api_key": {"$secret": "env:NOT_SET_ANYWHERE"}}
        reply = await at.do("PUT /v1/config/providers/p?dry_run=true", spec)
        assert reply["impact"]["secrets"] == ["env:NOT_SET_ANYWHERE"]
        (warning,) = [it for it in reply["diagnostics"] if it["code"] == "unresolved_secret"]
        assert warning["path"] == "providers/p/api_key"
        # Another process may have it: it is no problem.
        await at.do("PUT /v1/config/providers/p", spec)

    world(scenario)


def test_a_draft_that_is_not_there_and_a_caller_that_may_not_are_refused() -> None:
    async def scenario(at: World) -> None:
        draft = await at.draft(helper={"max_rounds": 3})
        assert (await at.ask("GET /v1/config/drafts/none/impact")).status == 404
        for who in ("reader", "tenant"):
            answer = await at.ask(f"GET /v1/config/drafts/{draft}/impact", who=who)
            assert answer.status == 403

    world(scenario)
