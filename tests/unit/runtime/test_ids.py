"""Ids and time of the machine: UUIDv7, unique, in order."""

import asyncio
import re
from uuid import UUID

from awaken import Agent, AgentRuntime
from awaken.runtime.primitives.system import SystemClock, Uuid7Source

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_ids_are_version_7_unique_and_sort_as_they_were_made() -> None:
    source = Uuid7Source()
    made = [source.new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(UUID7.fullmatch(each) for each in made)
    assert {UUID(each).version for each in made[::1000]} == {7}
    now = SystemClock().now_ms()
    assert abs((UUID(made[0]).int >> 80) - now) < 60_000


def test_the_runtime_names_what_its_caller_does_not_and_keeps_the_names_it_is_given() -> None:
    async def main() -> None:
        runtime = AgentRuntime([Agent("a", model="scripted")])
        named = await runtime.run("a", "hi", thread_id="mine", run_id_hint="my-run")
        assert (named.thread_id, named.run_id) == ("mine", "my-run")
        others = [await runtime.run("a", "hi") for _ in range(2)]
        assert len({each.thread_id for each in others}) == 2
        records = await runtime.messages(others[0].thread_id)
        ids = [others[0].thread_id, others[0].run_id, *(each.message_id for each in records)]
        assert len(records) == 2
        assert all(UUID7.fullmatch(each) for each in ids)
        assert len(set(ids)) == len(ids)

    asyncio.run(main())
