"""Evals, scores and labels over HTTP: who may, what comes back, and how each is refused."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from awaken import Access, Agent, AgentRuntime
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord, EvalSpec, ItemStatus
from awaken.contracts.evals.scores import Score
from awaken.contracts.models.model_specs import ModelSpec
from awaken.evals import Case, Dataset, Expectation, ScriptedTurn, ToolPolicy, scorers
from awaken.evals.evaluating import keep_dataset
from awaken.evals.fixture_reports import diff_items
from awaken.evals.runner import EvalRunner
from awaken.scoring import SCORERS
from awaken.testing import ScriptedModel

from .in_process import Answer, ask, bearer, config, token

SPEC = {
    "dataset_id": "greetings",
    "mode": "scripted",
    "variants": [{"name": "v", "agent_id": "writer"}],
}
SCRIPT = (ScriptedTurn(text="hello world"),)


class World:
    """A server with a dataset, and the runtime below it."""

    def __init__(self, runtime: AgentRuntime, app: Any) -> None:
        self.runtime = runtime
        self.app = app

    async def ask(self, operation: str, body: Any = None, who: str = "boss") -> Answer:
        method, path = operation.split(" ", 1)
        return await ask(self.app, method, path, body=body, headers=bearer(who))

    async def finish(self, **changes: Any) -> dict[str, Any]:
        made = await self.ask("POST /v1/evals", {**SPEC, **changes})
        assert made.status == 202, made.body
        await self.runtime.evals.wait(made.json["eval_id"], 10_000)
        return dict((await self.ask(f"GET /v1/evals/{made.json['eval_id']}")).json)


def play(scenario: Callable[[World], Awaitable[None]], *more: Case) -> None:
    async def main() -> None:
        agent = Agent(id="writer", model=ScriptedModel([]), instructions="Write.")
        tokens = (
            token("boss"),
            token("reader", frozenset({Access.READ})),
            token("evals", frozenset({Access.EVAL, Access.CONFIG, Access.READ})),
        )
        async with AgentRuntime([agent], history="full") as runtime:
            cases = tuple(
                Case(id=name, user_input="hi", provider_script=SCRIPT, tags=(name,))
                for name in ("a", "b")
            )
            dataset = Dataset(
                cases=(*cases, *more), id="greetings", scorers=(scorers.contains("hello"),)
            )
            await keep_dataset(runtime.evals.parts.evals, dataset)
            await scenario(World(runtime, runtime.asgi(config(*tokens))))

    asyncio.run(main())


def test_an_eval_is_made_followed_and_read() -> None:
    async def scenario(world: World) -> None:
        record = await world.finish(repeats=2)
        assert (record["status"], record["planned"]) == ("done", 4)
        figures = record["summary"]["variants"][0]["scorers"][0]
        assert (figures["scorer"], figures["rate"]) == ("contains", 1.0)
        items = (await world.ask(f"GET /v1/evals/{record['eval_id']}/items?limit=3")).json["items"]
        assert [it["number"] for it in items] == [0, 1, 2]
        after = await world.ask(f"GET /v1/evals/{record['eval_id']}/items?after=2")
        assert len(after.json["items"]) == 1
        listed = (await world.ask("GET /v1/evals?dataset_id=greetings")).json["evals"]
        assert [it["eval"]["eval_id"] for it in listed] == [record["eval_id"]]
        streamed = await world.ask(f"GET /v1/evals/{record['eval_id']}/stream")
        frames = streamed.body.decode().split("\n\n")
        assert sum(it.startswith("event: item\n") for it in frames) == 4
        (end,) = [it for it in frames if it.startswith("event: end\n")]
        assert json.loads(end.partition("data: ")[2])["status"] == "done"

    play(scenario)


def test_figures_are_there_while_an_eval_goes_on_and_are_kept_at_its_end() -> None:
    async def scenario(world: World) -> None:
        planned = await world.runtime.evals.create(msgspec.convert(SPEC, EvalSpec))
        path = f"GET /v1/evals/{planned.eval_id}/figures"
        assert (await world.ask(path)).json == {}
        item = EvalItem(
            number=0,
            case_id="a",
            variant="v",
            sample=0,
            status=ItemStatus.SCORED,
            scores=(Score(name="contains", value=1.0, passed=True),),
        )
        await world.runtime.evals.parts.evals.put_eval_item(planned.eval_id, item)
        (variant,) = (await world.ask(path)).json["variants"]
        assert (variant["items"], variant["scorers"][0]["rate"]) == (1, 1.0)
        record = await world.finish(gate={"require": [{"scorer": "contains", "min_rate": 1}]})
        figures = (await world.ask(f"GET /v1/evals/{record['eval_id']}/figures")).json
        assert figures == record["summary"]
        assert figures["gate"]["status"] == "passed"
        assert (await world.ask("GET /v1/evals/none/figures")).status == 404
        assert (await world.ask(path, who="reader")).status == 403

    play(scenario)


def test_forms_describe_cases_gates_and_every_scorer() -> None:
    async def scenario(world: World) -> None:
        forms = (await world.ask("GET /v1/eval/forms")).json
        assert set(forms["scorers"]) == set(SCORERS)
        assert "user_input" in forms["case"]["$defs"]["Case"]["properties"]
        assert "require" in forms["gate"]["$defs"]["Gate"]["properties"]

    play(scenario)


def test_what_cannot_be_planned_is_refused_and_not_kept() -> None:
    async def scenario(world: World) -> None:
        for changes, status, code in (
            ({"dataset_id": "nothing"}, 404, "unknown_dataset"),
            ({"cases": ["nobody"]}, 404, "unknown_case"),
            ({"variants": [{"name": "v", "agent_id": "nobody"}]}, 400, "invalid_eval"),
            ({"mode": "verify"}, 400, "invalid_eval"),
            ({"gate": {"min": 3}}, 400, "invalid_gate"),
            ({"scorers": [{"scorer": "magic"}]}, 400, "invalid_scorer"),
            ({"concurrency": 0}, 422, "invalid_body"),
            ({"repeats": 51}, 422, "invalid_body"),
            ({"what": 1}, 422, "unknown_field"),
        ):
            answer = await world.ask("POST /v1/evals", {**SPEC, **changes})
            assert answer.status == status, (changes, answer.body)
            assert answer.json["code"] == code, answer.body
        assert (await world.ask("GET /v1/evals")).json["evals"] == []
        assert (await world.ask("GET /v1/evals/none")).json["code"] == "unknown_eval"
        assert (await world.ask("GET /v1/evals/none/stream")).status == 404
        first = await world.finish(id="mine")
        again = await world.ask("POST /v1/evals", {**SPEC, "id": "mine"})
        assert (first["eval_id"], again.status, again.json["code"]) == ("mine", 409, "eval_exists")

    play(scenario)


def test_a_page_of_evals_leads_to_the_next_one_and_the_last_one_to_none() -> None:
    async def scenario(world: World) -> None:
        for name in ("first", "second", "third", "fourth"):
            await world.finish(id=name)
        pages: list[list[str]] = []
        before: int | None = None
        while before is not None or not pages:
            at = "" if before is None else f"&before={before}"
            page = (await world.ask(f"GET /v1/evals?limit=2&status=done{at}")).json
            pages.append([it["eval"]["eval_id"] for it in page["evals"]])
            before = page.get("next_before")
        assert pages == [["fourth", "third"], ["second", "first"]]

    play(scenario)


def test_effects_need_the_scope_invoke() -> None:
    live = Case(
        id="risky",
        user_input="hi",
        provider_script=SCRIPT,
        tools=ToolPolicy(allow_effects=True),
        expect=Expectation(),
    )

    async def scenario(world: World) -> None:
        refused = await world.ask("POST /v1/evals", SPEC, who="evals")
        assert (refused.status, refused.json["code"]) == (403, "forbidden")
        allowed = await world.ask("POST /v1/evals", {**SPEC, "cases": ["a"]}, who="evals")
        assert allowed.status == 202
        # The paths of Awaken for Rust start the same eval.
        fixtures = {"dataset_id": "greetings", "mode": "scripted", "agent_id": "writer"}
        refused = await world.ask("POST /v1/eval/runs", fixtures, who="evals")
        assert (refused.status, refused.json["code"]) == (403, "forbidden")
        assert (await world.ask("POST /v1/eval/runs", fixtures)).status == 200
        assert (await world.ask("POST /v1/evals", SPEC)).status == 202
        assert (await world.ask("GET /v1/evals", who="reader")).status == 403

    play(scenario, live)


def test_a_revision_that_comes_after_the_check_of_effects_is_not_executed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    risky = Case(
        id="a", user_input="hi", provider_script=SCRIPT, tools=ToolPolicy(allow_effects=True)
    )
    create = EvalRunner.create

    async def create_late(runner: EvalRunner, spec: EvalSpec, by: str = "") -> EvalRecord:
        dataset = Dataset(cases=(risky,), id="greetings", scorers=(scorers.contains("hello"),))
        await keep_dataset(runner.parts.evals, dataset)
        return await create(runner, spec, by)

    monkeypatch.setattr(EvalRunner, "create", create_late)

    async def scenario(world: World) -> None:
        made = await world.ask("POST /v1/evals", SPEC, who="evals")
        assert (made.status, made.json["revision"]) == (202, 1)

    play(scenario)


def test_an_estimate_spends_nothing_and_keeps_nothing() -> None:
    async def scenario(world: World) -> None:
        found = await world.ask("POST /v1/evals/estimate", SPEC)
        assert (found.status, found.json["samples"]) == (200, 2)
        assert found.json["tokens"] == {"low": 0, "expected": 0, "high": 0}
        live = await world.ask("POST /v1/evals/estimate", {**SPEC, "mode": "live"})
        assert (live.json["samples"], live.json["source"]) == (10, "none")
        assert (await world.ask("GET /v1/evals")).json["evals"] == []

    play(scenario)


def test_two_evals_are_compared_and_other_modes_are_not() -> None:
    async def scenario(world: World) -> None:
        one, two = [(await world.finish())["eval_id"] for _ in range(2)]
        compared = (await world.ask(f"GET /v1/evals/{one}/compare/{two}")).json
        (scorer,) = compared["comparisons"][0]["scorers"]
        assert (scorer["scorer"], scorer["difference"]) == ("contains", 0.0)
        unknown = await world.ask(f"GET /v1/evals/{one}/compare/none")
        assert (unknown.status, unknown.json["code"]) == (404, "unknown_eval")

    play(scenario)


def test_an_eval_that_has_ended_stays_ended_when_it_is_cancelled() -> None:
    async def scenario(world: World) -> None:
        record = await world.finish()
        again = await world.ask(f"POST /v1/evals/{record['eval_id']}/cancel")
        assert (again.status, again.json["status"]) == (200, "done")

    play(scenario)


def test_every_sample_of_every_model_is_compared_with_the_baseline() -> None:
    def item(number: int, variant: str, sample: int, *, passed: bool) -> EvalItem:
        score = Score(name="contains", value=float(passed), passed=passed)
        return EvalItem(
            number=number,
            case_id="a",
            variant=variant,
            sample=sample,
            status=ItemStatus.SCORED,
            scores=(score,),
            text="hello",
        )

    one = [item(0, "m", 0, passed=True)]
    flaky = [item(0, "m", 0, passed=True), item(1, "m", 1, passed=False)]
    assert [it.kind for it in diff_items(one, flaky)] == ["regression"]
    assert [it.kind for it in diff_items(flaky, one)] == ["fixed"]
    same = [item(n, "m", n, passed=True) for n in range(3)]
    assert [it.kind for it in diff_items(one, same)] == ["unchanged"]
    other = msgspec.structs.replace(same[2], text="hi")
    assert [it.fields for it in diff_items(one, [*same[:2], other])] == [("final_text",)]
    two = [item(0, "m", 0, passed=True), item(1, "n", 0, passed=False)]
    found = [(it.cell, it.kind) for it in diff_items(one, two)]
    assert found == [("m", "unchanged"), ("n", "regression")]
    gone = [(it.cell, it.kind) for it in diff_items(two, [item(0, "n", 0, passed=True)])]
    assert gone == [("n", "fixed"), ("m", "missing_from_new")]


def test_a_baseline_without_a_sample_is_refused_by_every_comparison() -> None:
    async def scenario(world: World) -> None:
        runner = world.runtime.evals
        await runner.create(msgspec.convert({**SPEC, "id": "none"}, EvalSpec))
        await runner.cancel("none")
        done = (await world.finish(id="done"))["eval_id"]
        for path in (
            f"evals/none/compare/{done}",
            f"evals/{done}/compare/none",
            f"eval/runs/{done}?baseline=none",
        ):
            refused = await world.ask(f"GET /v1/{path}")
            assert refused.json["code"] == "not_comparable", (path, refused.json)
            assert "has no sample" in str(refused.json)
        gate = await world.ask("POST /v1/evals", {**SPEC, "gate": {}})
        assert (gate.status, gate.json["code"]) == (400, "invalid_gate")

    play(scenario)


def test_the_paths_of_awaken_for_rust() -> None:
    async def scenario(world: World) -> None:
        body = {"dataset_id": "greetings", "agent_id": "writer", "samples": 2, "id": "r1"}
        made = await world.ask("POST /v1/eval/runs", body)
        run = made.json["run"]
        assert (made.status, run["id"], run["execution_mode"]) == (200, "r1", "scripted")
        assert run["dataset_revision"] == 1
        assert len(run["items"]) == 4
        report = run["items"][0]["report"]
        assert (report["passed"], report["final_text"]) == (True, "hello world")
        assert {it["sample_index"] for it in run["items"]} == {0, 1}
        assert made.json["aggregates"][0]["rate"] == 1.0
        other = await world.ask("POST /v1/eval/runs", {**body, "id": "r2", "samples": 1})
        assert other.status == 200
        shown = await world.ask("GET /v1/eval/runs/r2?baseline=r1&aggregate=samples")
        # Two equal samples are as one.
        assert {it["kind"] for it in shown.json["diff"]["entries"]} == {"unchanged"}
        listed = (await world.ask("GET /v1/eval/runs")).json["runs"]
        assert [it["id"] for it in listed] == ["r2", "r1"]
        counts = [(it["item_count"], it["passed_count"], it["failed_count"]) for it in listed]
        assert counts == [(2, 2, 0), (4, 4, 0)]
        path = f"GET /v1/eval/runs?dataset_id={body['dataset_id']}&limit=1"
        assert [it["id"] for it in (await world.ask(path)).json["runs"]] == ["r2"]
        assert (await world.ask("GET /v1/eval/runs?dataset_id=other")).json["runs"] == []
        # Its console names no agent: the only one there is.
        unnamed = await world.ask("POST /v1/eval/runs", {"dataset_id": "greetings"})
        assert (unnamed.status, len(unnamed.json["run"]["items"])) == (200, 2)
        again = await world.ask("POST /v1/eval/runs", body)
        assert (again.status, again.json["code"]) == (409, "eval_exists")
        live = await world.ask("POST /v1/eval/runs", {**body, "id": "r3", "mode": "live"})
        assert (live.status, live.json["code"]) == (400, "invalid_eval")

    play(scenario)


def test_people_score_runs_and_labels_calibrate_judges() -> None:
    async def scenario(world: World) -> None:
        record = await world.finish()
        items = (await world.ask(f"GET /v1/evals/{record['eval_id']}/items")).json["items"]
        run_id = items[0]["run_id"]
        given = {"name": "thumbs", "value": 1, "comment": "good", "step": 1}
        made = await world.ask(f"POST /v1/runs/{run_id}/scores", given)
        assert (made.status, made.json["source"], made.json["by"]) == (201, "human", "boss")
        listed = (await world.ask(f"GET /v1/runs/{run_id}/scores")).json["scores"]
        assert [(it["scorer"], it["source"]) for it in listed] == [
            ("thumbs", "human"),
            ("contains", "eval"),
        ]
        labels = [
            {"run_id": it["run_id"], "scorer": "contains", "passed": it["case_id"] == "a"}
            for it in items
        ]
        kept = await world.ask("POST /v1/eval/labels", {"labels": labels})
        assert (kept.status, len(kept.json["scores"])) == (201, 2)
        found = (await world.ask("GET /v1/eval/judges/contains/calibration")).json
        assert (found["labels"], found["agreement"]) == (2, 0.5)
        assert not found.get("is_calibrated")
        for body in ({"value": 2}, {"value": -1}, {}, {"value": 1, "step": 0}):
            assert (await world.ask(f"POST /v1/runs/{run_id}/scores", body)).status == 422
        assert (await world.ask("POST /v1/runs/none/scores", {"value": 1})).status == 404

    play(scenario)


def test_one_input_is_tried_with_several_models() -> None:
    async def scenario(world: World) -> None:
        body = {"user_input": "hi", "agent_id": "writer", "models": ["nowhere"]}
        refused = await world.ask("POST /v1/eval/online", body)
        assert (refused.status, refused.json["code"]) == (400, "invalid_eval")
        assert (await world.ask("POST /v1/eval/online", {**body, "models": []})).status == 422
        # As its console asks: it is the model that is refused, not the body.
        ping = {"user_input": "hi", "models": ["nowhere"], "persist": False}
        ping |= {"max_walltime_secs": 30, "max_total_tokens": 500, "expectations": {}}
        refused = await world.ask("POST /v1/eval/online", ping)
        assert (refused.status, refused.json["code"]) == (400, "invalid_eval")
        assert "no provider" in refused.json["error"]
        many = {**body, "models": ["m"] * 11}
        assert (await world.ask("POST /v1/eval/online", many)).status == 422

    play(scenario)


def test_inputs_that_are_tried_once_leave_the_dataset_of_a_person_alone() -> None:
    async def main() -> None:
        model = ModelSpec(id="m", provider_id="own", upstream_model="m", max_output_tokens=100)
        runtime = AgentRuntime(
            [Agent(id="writer", model="m", instructions="Write.")],
            providers={"own": ScriptedModel(["hello"] * 9)},
            models=[model],
        )
        async with runtime:
            world = World(runtime, runtime.asgi(config(token("boss"))))
            fixture = {"id": "mine", "user_input": "hi", "expect": {"final_answer_contains": ["x"]}}
            spec = {"description": "", "fixtures": [fixture]}
            made = await world.ask("POST /v1/eval/datasets", {"id": "online", "spec": spec})
            assert made.status == 201, made.body
            for text in ("one", "two"):
                body = {"user_input": text, "agent_id": "writer", "models": ["m"]}
                tried = await world.ask("POST /v1/eval/online", body)
                assert tried.status == 200, tried.body
                assert tried.json["run"]["dataset_id"] == ":online"
            kept = (await world.ask("GET /v1/eval/datasets/online")).json
            assert kept["meta"]["revision"] == 1
            assert [it["id"] for it in kept["spec"]["fixtures"]] == ["mine"]
            # Nor does a person add a case that the next try would remove.
            late = {"fixture": {**fixture, "id": "late"}, "expected_revision": 2}
            refused = await world.ask("POST /v1/eval/datasets/:online/fixtures", late)
            assert (refused.status, refused.json["code"]) == (400, "invalid_dataset")

    asyncio.run(main())
