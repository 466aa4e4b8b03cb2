"""Datasets over HTTP: Rust's bodies and shapes, captures of real runs, imports, conflicts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from awaken import Access, Agent, AgentRuntime, tool
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Answer, ask, bearer, config, token

FIXTURE = {
    "id": "hello",
    "user_input": "Hello",
    "provider_script": [
        {"kind": "tool_call", "id": "c1", "name": "look_up", "arguments": {"q": 1}},
        {"kind": "chat_response", "content": "Hi", "finish_reason": "end_turn"},
    ],
    "expect": {"final_answer_contains": ["Hi"]},
}
DATASETS = "/v1/eval/datasets"
ONE = f"{DATASETS}/greetings"


@tool
def look_up(q: int) -> str:
    """Look something up."""
    return f"found {q}"


class World:
    def __init__(self, runtime: AgentRuntime, app: Any) -> None:
        self.runtime = runtime
        self.app = app

    async def ask(self, operation: str, body: Any = None, who: str = "evals") -> Answer:
        method, path = operation.split(" ", 1)
        return await ask(self.app, method, path, body=body, headers=bearer(who))

    async def make(self, *fixtures: Any, **spec: Any) -> Answer:
        body = {"id": "greetings", "spec": {"description": "Hi", "fixtures": fixtures, **spec}}
        return await self.ask(f"POST {DATASETS}", body)

    async def run(self, text: str = "Look up 7", **more: Any) -> str:
        result = await self.runtime.run("helper", text, **more)
        return result.run_id


def play(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        answers = [
            ToolCalls([("look_up", {"q": 7}), ("look_up", {"q": 8})]),
            '{"found": [7], "n": 1}',
        ]
        agent = Agent(id="helper", model=ScriptedModel(answers * 20), tools=[look_up])
        tokens = (
            token("boss"),
            token("reader", frozenset({Access.READ})),
            token("viewer", frozenset({Access.CONFIG})),
            token("evals", frozenset({Access.EVAL, Access.CONFIG, Access.READ})),
        )
        async with AgentRuntime([agent], history="full") as runtime:
            await scenario(World(runtime, runtime.asgi(config(*tokens))))

    asyncio.run(main())


def test_a_dataset_lives_by_its_revisions() -> None:
    async def scenario(world: World) -> None:
        made = await world.make(FIXTURE)
        assert made.status == 201, made.body
        assert made.json["meta"]["revision"] == 1
        assert made.json["spec"]["fixtures"] == [FIXTURE]
        listed = (await world.ask(f"GET {DATASETS}")).json
        assert listed == {
            "datasets": [
                {"id": "greetings", "description": "Hi", "fixture_count": 1, "revision": 1}
            ]
        }
        assert (await world.make(FIXTURE)).status == 409
        spec = {"description": "New", "fixtures": [FIXTURE, FIXTURE | {"id": "again"}]}
        spec["gate"] = {"require": [{"scorer": "exact", "min_rate": 1}]}
        put = await world.ask(f"PUT {ONE}", {"expected_revision": 1, "spec": spec})
        assert put.json["meta"]["revision"] == 2
        (shown,) = (await world.ask(f"GET {DATASETS}")).json["datasets"]
        assert (shown["revision"], shown["has_gate"]) == (2, True)
        assert put.json["duplicates"] == [{"case_id": "hello", "same_as": "again"}] or put.json[
            "duplicates"
        ] == [{"case_id": "again", "same_as": "hello"}]
        old = await world.ask(f"PUT {ONE}", {"expected_revision": 1, "spec": spec})
        assert (old.status, old.json["code"]) == (409, "dataset_conflict")
        added = await world.ask(
            f"POST {ONE}/fixtures",
            {"fixture": FIXTURE | {"id": "third", "user_input": "x"}, "expected_revision": 2},
        )
        assert added.status == 201, added.body
        twice = {"fixture": FIXTURE, "expected_revision": 3}
        assert (await world.ask(f"POST {ONE}/fixtures", twice)).status == 409
        first = (await world.ask(f"GET {ONE}?revision=1")).json
        assert [it["id"] for it in first["spec"]["fixtures"]] == ["hello"]
        revisions = (await world.ask(f"GET {ONE}/revisions")).json["revisions"]
        assert [(it["revision"], it["fixture_count"]) for it in revisions] == [
            (3, 3),
            (2, 2),
            (1, 1),
        ]
        case = (await world.ask(f"GET {ONE}/cases/hello")).json
        assert case == {"revision": 3, "case": FIXTURE}
        assert (await world.ask(f"GET {ONE}/cases/nope")).status == 404
        assert (await world.ask(f"DELETE {ONE}?expected_revision=1")).status == 409
        assert (await world.ask(f"DELETE {ONE}?expected_revision=3")).status == 204
        assert (await world.ask(f"GET {ONE}")).status == 404

    play(scenario)


def test_a_run_becomes_a_draft_that_a_person_confirms() -> None:
    async def scenario(world: World) -> None:
        await world.make()
        run_id = await world.run()
        made = await world.ask(f"POST {ONE}/items", {"from_run_id": run_id})
        assert made.status == 201, made.body
        (case,) = made.json["spec"]["fixtures"]
        assert (case["id"], case["user_input"], case["status"]) == (run_id, "Look up 7", "draft")
        assert case["expect"] == {"tool_sequence": ["look_up", "look_up"]}
        assert case["source_run_id"] == run_id
        script = case["provider_script"]
        assert [it["kind"] for it in script] == ["turn", "chat_response"]
        names = {it["name"]: it["options"] for it in case["scorers"]}
        assert names["proposed.ended"] == {"types": ["natural_end"]}
        assert names["proposed.schema"]["schema"]["required"] == ["found", "n"]
        assert len(case["recording"]) == 32
        again = await world.ask(f"POST {ONE}/items", {"from_run_id": run_id})
        assert again.status == 409
        other = {"from_run_id": run_id, "fixture_id": "same-input"}
        same = await world.ask(f"POST {ONE}/items", other)
        assert same.json["duplicates"] == [{"case_id": "same-input", "same_as": run_id}]
        assert len(same.json["spec"]["fixtures"]) == 1
        asked = {
            "from_run_id": run_id,
            "fixture_id": "expected",
            "user_input": "Other words",
            "provider_script_mode": "require",
            "recording": False,
            "expect": {"final_answer_contains": ["found"]},
        }
        ready = await world.ask(f"POST {ONE}/items", asked)
        found = next(it for it in ready.json["spec"]["fixtures"] if it["id"] == "expected")
        assert "status" not in found
        assert "recording" not in found
        assert (await world.ask(f"POST {ONE}/items", {"from_run_id": "nope"})).status == 404

    play(scenario)


def test_many_runs_and_dialogues_are_imported() -> None:
    async def scenario(world: World) -> None:
        await world.make()
        first = await world.runtime.run("helper", "One")
        second = await world.runtime.run("helper", "Two", thread_id=first.thread_id)
        await world.run("Three")
        body = {"expected_revision": 1, "run_ids": [first.run_id, second.run_id]}
        made = await world.ask(f"POST {ONE}/import-dialogue", body | {"fixture_id": "talk"})
        assert made.json == {"fixture_id": "talk", "dataset_revision": 2}
        talk = (await world.ask(f"GET {ONE}/cases/talk")).json["case"]
        assert talk["user_input"] == "One"
        assert [it["user_input"] for it in talk["continued_turns"]] == ["Two"]
        other = await world.run("Four")
        strange = {"expected_revision": 2, "run_ids": [first.run_id, other]}
        assert (await world.ask(f"POST {ONE}/import-dialogue", strange)).status == 400
        stale = await world.ask(f"POST {ONE}/import-traces", {"expected_revision": 1})
        assert stale.status == 409
        filters = {"expected_revision": 2, "agent_id": "helper", "ended": "natural_end"}
        few = await world.ask(f"POST {ONE}/import-traces", filters | {"max_count": 2})
        assert few.json["imported_count"] == 2
        costly = {"expected_revision": 3, "cost_above": 1.0}
        none = (await world.ask(f"POST {ONE}/import-traces", costly)).json
        assert (none["imported_count"], none["dataset_revision"]) == (0, 3)
        bad = {"name": "thumbs", "value": 0.0}
        scored = await world.ask(f"POST /v1/runs/{other}/scores", bad)
        assert scored.status == 201, scored.body
        wanted = {"expected_revision": 3, "thumbs_down": True}
        down = (await world.ask(f"POST {ONE}/import-traces", wanted)).json
        assert down["imported_count"] + len(down.get("duplicates", ())) <= 1

    play(scenario)


def test_files_of_other_tools_are_imported_and_the_rest_is_listed() -> None:
    async def scenario(world: World) -> None:
        await world.make()
        data = (
            b"tests:\n- vars: {q: Hi}\n  assert: [{type: contains, value: x}, {type: javascript}]\n"
        )
        headers = bearer("evals")
        made = await ask(
            world.app, "POST", f"{ONE}/import?from=promptfoo", body=data, headers=headers
        )
        assert made.status == 200, made.body
        assert made.json["added"] == ["case-0001"]
        assert made.json["left_out"] == ["test '1': assertion 'javascript'"]
        broken = await ask(world.app, "POST", f"{ONE}/import?from=adk", body=b"[", headers=headers)
        assert (broken.status, broken.json["code"]) == (400, "invalid_dataset")
        unknown = await ask(world.app, "POST", f"{ONE}/import?from=x", body=b"", headers=headers)
        assert unknown.status == 400

    play(scenario)


def test_callers_need_the_scopes_and_broken_bodies_are_refused_by_name() -> None:
    async def scenario(world: World) -> None:
        await world.make(FIXTURE)
        assert (await world.ask(f"GET {ONE}", who="viewer")).status == 200
        assert (await world.ask(f"GET {ONE}", who="reader")).status == 403
        assert (await world.ask(f"DELETE {ONE}", who="viewer")).status == 403
        for spec, words in (
            ({"fixtures": [{"id": "..", "user_input": ""}]}, "letters, digits"),
            ({"fixtures": [{"id": "a", "user_input": "", "colour": 1}]}, "colour"),
            ({"fixtures": [{"id": "a", "user_input": ""}]}, "no expectation"),
            ({"fixtures": [FIXTURE, FIXTURE]}, "given 2 times"),
            ({"scorers": [{"scorer": "nope"}]}, "no such scorer"),
        ):
            answer = await world.ask(f"PUT {ONE}", {"expected_revision": 1, "spec": spec})
            assert answer.status == 400, answer.body
            assert words in answer.json["error"]
        assert (await world.ask(f"GET {ONE}")).json["meta"]["revision"] == 1
        assert (await world.ask(f"POST {DATASETS}", {"id": "..", "spec": {}})).status == 400

    play(scenario)
