"""What-if with a draft that nothing has published: over HTTP, and by the command."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from awaken import Access, AgentRuntime
from awaken.cli.apps import load_app
from awaken.cli.main import app as command
from awaken.managed.drafts import PublishDraft
from awaken.managed.parts import Author
from awaken.managed.records import RecordWrite

from .in_process import ask, bearer, config, token

APP = """
from awaken import AgentRuntime, tool
from awaken.models import ModelSpec
from awaken.testing import ScriptedModel, ToolCalls, Turn

DONE = []

@tool
async def charge(amount: int) -> str:
    "Charge."
    DONE.append(amount)
    return f"charged {amount}"

def answer(request):
    said = request.system[0] if request.system else ""
    if any(it.role == "tool" for it in request.messages):
        return Turn("Paid.")
    if "politely" in said:
        return Turn("Please pay yourself.")
    return ToolCalls([("charge", {"amount": 5})])

runtime = AgentRuntime(
    tools=[charge],
    providers={"own": ScriptedModel([answer] * 99)},
    models=[ModelSpec(id="m", provider_id="own", upstream_model="m")],
    store="sqlite:///awaken.db",
    managed=True,
    history="full",
)
"""
ANN = Author(id="ann")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def load() -> AgentRuntime:
    runtime = load_app("shop.py").runtime
    assert runtime is not None
    return runtime


async def write_draft(runtime: AgentRuntime, spec: dict[str, Any]) -> str:
    assert runtime.managed is not None
    drafts = runtime.managed.drafts
    draft = await drafts.create(ANN, "change")
    write = RecordWrite(namespace="agents", id="clerk", author=ANN)
    await drafts.put_record(draft.id, write, {"model_id": "m", "allowed_tools": ["charge"]} | spec)
    return draft.id


async def publish(runtime: AgentRuntime, draft_id: str) -> None:
    assert runtime.managed is not None
    await runtime.managed.drafts.publish(draft_id, PublishDraft(author=ANN))


def access() -> Any:
    scopes = {*Access} - {Access.OPEN, Access.KNOWN}
    return config(token("all", access=frozenset(scopes)))


async def replay(app: Any, run_id: str, variant: dict[str, Any]) -> Any:
    body = {"mode": "what_if", "variant": {"name": "v", **variant}}
    path = f"/v1/runs/{run_id}/replay"
    begun = await ask(app, "POST", path, headers=bearer("all"), body=body)
    if begun.status != 202:
        return begun
    place = f"/v1/runs/{run_id}/replays/{begun.json['replay']['replay_id']}?wait_ms=30000"
    return (await ask(app, "GET", place, headers=bearer("all"))).json


def test_a_what_if_runs_a_draft_as_it_is_now(folder: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), load() as runtime:
            await publish(runtime, await write_draft(runtime, {"system_prompt": "Sell."}))
            run = await runtime.run("clerk", "hi")
            assert run.text == "Paid."
            app = runtime.asgi(access())
            draft_id = await write_draft(runtime, {"system_prompt": "Answer politely."})
            done = await replay(app, run.run_id, {"draft_id": draft_id})
            assert done["replay"]["status"] == "done", done
            result, record = done["result"], done["replay"]
            assert result["diff"]["after"]["text"] == "Please pay yourself."
            assert result["divergences"][0]["path"] == "/request/frame"
            # It ran on exactly what the draft would publish.
            assert runtime.managed is not None
            first = await replay(app, run.run_id, {"draft_id": draft_id})
            assert first["replay"]["manifest_hash"] == record["manifest_hash"]
            await publish(runtime, draft_id)
            head = await runtime.managed.parts.read_head()
            live = await runtime.managed.parts.reader.load_publication(head.publication or 0)
            assert live.manifest_hash == record["manifest_hash"]
            back = await replay(app, run.run_id, {"publication": 1})
            assert back["result"]["diff"]["after"]["text"] == "Paid."
            unknown = await replay(app, run.run_id, {"draft_id": "nothing"})
            assert unknown.status == 404, unknown.json
            both = await replay(app, run.run_id, {"draft_id": draft_id, "publication": 1})
            assert (both.status, both.json["code"]) == (400, "cannot_replay"), both.json

    asyncio.run(main())


def test_rules_and_tool_texts_of_a_draft_hold_in_a_replay(folder: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), load() as runtime:
            await publish(runtime, await write_draft(runtime, {"system_prompt": "Sell."}))
            run = await runtime.run("clerk", "hi")
            app = runtime.asgi(access())
            draft_id = await write_draft(runtime, {"system_prompt": "Sell.", "allowed_tools": []})
            done = await replay(app, run.run_id, {"draft_id": draft_id})
            assert done["replay"]["status"] == "done", done
            first = done["result"]["divergences"][0]
            assert (first["step"], first["path"]) == (1, "/request/frame"), done
            texts = {"tool_descriptions": {"charge": "Charge nothing."}}
            done = await replay(app, run.run_id, texts)
            assert done["result"]["divergences"][0]["path"] == "/request/frame"

    asyncio.run(main())


def test_effects_of_a_fork_and_of_a_replay_are_audited(folder: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), load() as runtime:
            await publish(runtime, await write_draft(runtime, {"system_prompt": "Sell."}))
            run = await runtime.run("clerk", "hi")
            app = runtime.asgi(access())
            path = f"/v1/runs/{run.run_id}"
            for allow_effects in (False, True):
                body = {"at": {"step": 1}, "allow_effects": allow_effects}
                made = await ask(app, "POST", f"{path}/fork", headers=bearer("all"), body=body)
                assert made.status == 202, made.json
            effects = {"mode": "model_only", "tools": {"allow_effects": True}}
            made = await ask(app, "POST", f"{path}/replay", headers=bearer("all"), body=effects)
            assert made.status == 202, made.json
            found = await ask(app, "GET", "/v1/audit-log?action=replay", headers=bearer("all"))
            shown = [(it["resource"], it["details"]["mode"]) for it in found.json["items"]]
            resource = f"runs/{run.run_id}"
            assert sorted(shown) == [(resource, "fork"), (resource, "model_only")], found.json

    asyncio.run(main())


def test_the_command_replays_a_draft(folder: Path) -> None:
    async def fill() -> tuple[str, str]:
        async with asyncio.timeout(120), load() as runtime:
            await publish(runtime, await write_draft(runtime, {"system_prompt": "Sell."}))
            run = await runtime.run("clerk", "hi")
            draft_id = await write_draft(runtime, {"system_prompt": "Answer politely."})
            return run.run_id, draft_id

    run_id, draft_id = asyncio.run(fill())
    words = ["replay", run_id, "--app", "shop.py:runtime", "--draft", draft_id, "--json"]
    found = CliRunner().invoke(command, words)
    assert found.exit_code == 1, found.stderr
    shown = json.loads(found.stdout)
    assert shown["replayed"]["run"]["final_output"] == "Please pay yourself."
    unknown = CliRunner().invoke(command, [*words[:4], "--draft", "nothing"])
    assert unknown.exit_code == 2
