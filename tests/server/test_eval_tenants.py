"""Datasets, evals and recordings are the deployment's: no tenant sees those of any tenant."""

import asyncio
from typing import Any

from awaken import Access, Agent, AgentRuntime, RunRequest
from awaken.evals import Case, Dataset, ScriptedTurn, scorers
from awaken.evals.evaluating import keep_dataset
from awaken.messages import user
from awaken.testing import ScriptedModel

from .in_process import ask, bearer, config, token

CANARY = "the-word-of-acme"
EVERY = frozenset(Access) - {Access.OPEN, Access.KNOWN}
BODIES: dict[str, Any] = {
    "/v1/evals": {"dataset_id": "d", "mode": "scripted", "variants": [{"name": "v"}]},
    "/v1/evals/estimate": {"dataset_id": "d", "mode": "scripted"},
    "/v1/eval/runs": {"dataset_id": "d"},
    "/v1/eval/online": {"user_input": "hi", "models": ["m"]},
    "/v1/eval/labels": {"labels": [{"run_id": "r", "scorer": "s", "passed": True}]},
}


def is_of_evals(path: str) -> bool:
    words = ("/recording", "/replay", "/diff", "/scores")
    return path.startswith("/v1/eval") or any(it in path for it in words)


def test_no_route_shows_or_changes_what_evals_keep_to_a_caller_with_a_tenant() -> None:
    async def main() -> None:
        agent = Agent(id="writer", model=ScriptedModel([CANARY] * 9), instructions="Write.")
        async with AgentRuntime([agent], history="full") as runtime:
            request = RunRequest(agent_id="writer", messages=(user(CANARY),), tenant_id="acme")
            run = await runtime._engine.run(request)
            script = (ScriptedTurn(text=CANARY),)
            case = Case(id="c", user_input=CANARY, provider_script=script, tenant_id="acme")
            dataset = Dataset(id="d", cases=(case,), scorers=(scorers.contains(CANARY),))
            await keep_dataset(runtime.evals.parts.evals, dataset)
            tokens = [token("boss"), token("plain", EVERY)]
            tokens += [token(it, EVERY, tenant_id=it) for it in ("acme", "globex")]
            app = runtime.asgi(config(*tokens))

            async def call(method: str, path: str, who: str) -> Any:
                body = BODIES.get(path, {}) if method in ("POST", "PUT") else None
                return await ask(app, method, path, body=body, headers=bearer(who))

            spec = {**BODIES["/v1/evals"], "variants": [{"name": "v", "agent_id": "writer"}]}
            made = await ask(app, "POST", "/v1/evals", body=spec, headers=bearer("boss"))
            await runtime.evals.wait(made.json["eval_id"], 10_000)
            names = {"eval_id": made.json["eval_id"], "other_id": made.json["eval_id"]}
            names |= {"run_id": run.run_id, "other": run.run_id, "dataset_id": "d", "case_id": "c"}
            names |= {"scorer": "contains", "replay_id": "r"}
            paths = (await call("GET", "/openapi.json", "boss")).json["paths"]
            tried = 0
            for template, methods in paths.items():
                if not is_of_evals(template):
                    continue
                path = template
                for name, value in names.items():
                    path = path.replace(f"{{{name}}}", value)
                for method in methods:
                    for who in ("acme", "globex"):
                        answer = await call(method.upper(), path, who)
                        where = (method, path, who, answer.body[:200])
                        tried += 1
                        assert answer.status in (401, 403, 404), where
                        assert CANARY.encode() not in answer.body, where
            assert tried > 60
            # Operators do see them, and nothing was changed.
            shown = await call("GET", "/v1/eval/datasets/d", "boss")
            assert CANARY.encode() in shown.body
            assert shown.json["meta"]["revision"] == 1

    asyncio.run(main())
