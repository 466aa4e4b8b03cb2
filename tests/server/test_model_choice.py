"""A caller may choose another model of the agent's provider for a run."""

from .managed_world import World, world


async def _models_of(at: World, run_id: str) -> list[str]:
    events = (await at.get(f"/v1/runs/{run_id}/events"))["items"]
    return [it["event"]["model"] for it in events if "model" in it["event"]]


def test_a_run_asks_the_model_that_its_caller_chose() -> None:
    async def scenario(at: World) -> None:
        offered = await at.get("/v1/agents/helper/models")
        assert offered["model"] == "fast"
        assert [(it["id"], it["is_own"]) for it in offered["items"]] == [
            ("best", False), ("fast", True),
        ]  # fmt: skip
        chosen = await at.run("helper", "chosen", model="best")
        plain = await at.run("helper", "plain")
        assert await _models_of(at, chosen["run_id"]) == ["best-1"]
        assert await _models_of(at, plain["run_id"]) == ["fast-1"]

    world(scenario)


def test_a_chosen_model_keeps_its_own_price() -> None:
    async def scenario(at: World) -> None:
        made = {"id": "dear", "provider_id": "own", "upstream_model": "dear-1"}
        prices = {"input": 100.0, "output": 100.0}
        await at.do("POST /v1/config/models", {**made, "prices": prices}, 201)
        run = await at.run("helper", "t", model="dear")
        assert (await at.runtime.get_run(run["run_id"])).usage.cost_nanos

    world(scenario)


def test_a_model_of_another_provider_or_an_unknown_one_is_refused() -> None:
    async def scenario(at: World) -> None:
        body = {"agent_id": "helper", "messages": [{"content": "go"}], "model": "none"}
        refused = await at.ask("POST /v1/runs", body)
        assert refused.status == 400
        assert "known: best, fast" in refused.error
        assert (await at.get("/v1/agents/asker/models"))["items"] == []
        other = await at.ask("POST /v1/runs", {**body, "agent_id": "asker", "model": "best"})
        assert other.status == 400

    world(scenario)


def test_who_may_not_read_the_configuration_cannot_choose_a_model() -> None:
    async def scenario(at: World) -> None:
        body = {"agent_id": "helper", "messages": [{"content": "go"}], "model": "best"}
        assert (await at.ask("POST /v1/runs", body, who="caller")).status == 403
        assert (await at.ask("GET /v1/agents/helper/models", who="caller")).status == 403

    world(scenario)
