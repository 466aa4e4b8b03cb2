"""Two people edit one fact: what the first one wrote is not replaced unread."""

import asyncio
from pathlib import Path

from tests.server.in_process import ask, config

from awaken import Agent, AgentRuntime
from awaken.extensions.memory import MemoryPlugin
from awaken.stores import SqliteStore
from awaken.testing import ScriptedModel

FACTS = "/v1/memory/facts"


def test_an_edit_of_a_fact_that_another_person_changed_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["Yes."]), plugins=[MemoryPlugin()])
        async with AgentRuntime([agent], store=SqliteStore(tmp_path / "facts.db")) as runtime:
            app = runtime.asgi(config())
            made = (await ask(app, "POST", FACTS, body={"text": "Ann drinks tea"})).json
            place, seen = f"{FACTS}/{made['id']}", made["updated_at"]
            wrong = {"text": "Mine", "expected_updated_at": seen - 1}
            refused = await ask(app, "PUT", place, body=wrong)
            assert (refused.status, refused.json["code"]) == (409, "fact_conflict")
            assert (await ask(app, "GET", place)).json["text"] == "Ann drinks tea"
            saved = await ask(app, "PUT", place, body={"text": "Mine", "expected_updated_at": seen})
            assert (saved.status, saved.json["text"]) == (200, "Mine")
            # Who names no time replaces whatever is there, as before.
            assert (await ask(app, "PUT", place, body={"text": "Last"})).status == 200

    asyncio.run(scenario())
