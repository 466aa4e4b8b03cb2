"""Evals over HTTP whose variants are publications, drafts, and agents with other rules."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken.evals import Case, Dataset, scorers
from awaken.evals.evaluating import keep_dataset

from .in_process import ask, bearer
from .test_replays_of_drafts import APP, access, load, publish, write_draft

STUB = {"stubs": {"charge": [{"result": "charged"}]}}
DENY = {"rules": [{"tool": "charge", "behavior": "deny"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    plugin = "from awaken.extensions.permission import PermissionPlugin\n"
    code = APP.replace("tools=[charge],", "tools=[charge], plugins=[PermissionPlugin()],")
    (tmp_path / "shop.py").write_text(plugin + code)
    return tmp_path


def test_variants_are_publications_drafts_and_other_rules(folder: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), load() as runtime:
            await publish(runtime, await write_draft(runtime, {"system_prompt": "Sell."}))
            await publish(runtime, await write_draft(runtime, {"system_prompt": "Sell politely."}))
            draft_id = await write_draft(runtime, {"system_prompt": "Sell at once."})
            case = Case(id="c", user_input="hi", scorers=(scorers.contains("Paid."),))
            await keep_dataset(runtime.evals.parts.evals, Dataset(cases=(case,), id="d"))
            app = runtime.asgi(access())

            async def make(*variants: dict[str, Any]) -> Any:
                named = [{"agent_id": "clerk", **it} for it in variants]
                body = {"dataset_id": "d", "repeats": 1, "tools": STUB, "variants": named}
                return await ask(app, "POST", "/v1/evals", headers=bearer("all"), body=body)

            plugins = {"plugin_ids": ["permission"], "sections": {"permission": DENY}}
            made = await make(
                {"name": "old", "publication": 1},
                {"name": "live"},
                {"name": "draft", "draft_id": draft_id},
                {"name": "denied", "publication": 1, "changes": plugins},
            )
            assert made.status == 202, made.body
            eval_id = made.json["eval_id"]
            await runtime.evals.wait(eval_id, 60_000)
            path = f"/v1/evals/{eval_id}"
            record = (await ask(app, "GET", path, headers=bearer("all"))).json
            assert record["status"] == "done", record
            shown = (await ask(app, "GET", f"{path}/items", headers=bearer("all"))).json["items"]
            items = {it["variant"]: it for it in shown}
            texts = {name: it.get("text", "") for name, it in items.items()}
            assert texts["old"] == texts["draft"] == "Paid."
            assert texts["live"] == "Please pay yourself."
            denied = await runtime.replays.record(items["denied"]["run_id"])
            assert [it.has_run for it in denied.steps[0].calls] == [False], denied.steps
            pins = record["publications"]
            assert (pins["old"], pins["denied"]) == (1, 1)
            assert len({pins["old"], pins["live"], pins["draft"]}) == 3
            # What the draft was compiled to for the eval is not live.
            assert (await runtime.run("clerk", "hi")).text == "Please pay yourself."
            for wrong in ({"publication": 999}, {"draft_id": "nothing"}):
                refused = await make({"name": "v", **wrong})
                assert refused.status in (400, 404, 422), refused.body
                assert "v" in refused.json["error"], refused.json

    asyncio.run(main())
