"""The assistant without a key: what it knows of whom, and what it forgets."""

import unittest

from app import assistant, ingest_handbook

from awaken import AgentRuntime
from awaken.extensions.memory import user_memory

ABOUT = "What do you know about me?"


class AssistantTest(unittest.IsolatedAsyncioTestCase):
    async def test_it_knows_a_user_in_a_new_conversation_and_no_other(self) -> None:
        async with AgentRuntime([assistant]) as runtime:
            await runtime.run("assistant", "I drink espresso.", user_id="ann")
            known = await runtime.run("assistant", ABOUT, user_id="ann")
            self.assertIn("I drink espresso.", known.text)
            bob = await runtime.run("assistant", ABOUT, user_id="bob")
            unknown = await runtime.run("assistant", ABOUT)
            elsewhere = await runtime.run("assistant", ABOUT, user_id="ann", tenant_id="acme")
            for other in (bob, unknown, elsewhere):
                self.assertEqual(other.text, "I know nothing about you yet.")

    async def test_it_forgets_when_it_is_asked_to(self) -> None:
        async with AgentRuntime([assistant]) as runtime:
            await runtime.run("assistant", "I drink espresso.", user_id="ann")
            await runtime.run("assistant", "Forget that.", user_id="ann")
            known = await runtime.run("assistant", ABOUT, user_id="ann")
            self.assertEqual(known.text, "I know nothing about you yet.")
            page = await runtime.memory.list_facts(user_memory(None, "ann"))
            self.assertEqual(page.items, ())

    async def test_it_quotes_the_handbook(self) -> None:
        async with AgentRuntime([assistant]) as runtime:
            await ingest_handbook(runtime)
            result = await runtime.run("assistant", "How many holidays are there?")
            self.assertIn("30 days off", result.text)
