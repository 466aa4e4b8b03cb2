"""Servers that come, go and change while the runtime runs; runs meanwhile lose nothing else."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.extensions.mcp_servers.desk import Desk
from tests.extensions.mcp_servers.worlds import (
    BOUND_S,
    FAST,
    calls,
    local,
    playing,
    program,
    results,
    status,
)

from awaken import tool
from awaken.contracts.errors import DuplicateRegistration, InvalidPluginConfig, InvalidSpec
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolStatus
from awaken.extensions.mcp import McpPlugin, McpServer, ServerState, Stdio


def names_of(plugin: McpPlugin) -> list[str]:
    return [it.name for it in plugin.servers()]


def test_a_program_that_is_applied_starts_and_one_that_is_gone_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        plugin = McpPlugin(())
        turns = [calls("mcp__desk__say"), "x", calls("mcp__desk__say"), "done"]
        async with playing(plugin, *turns) as (runtime, _):
            await plugin.apply([program(tmp_path)])
            await plugin.wait_for_state("desk")
            (there,) = await results(runtime)
            assert there.status is ToolStatus.SUCCESS
            await plugin.apply([])
            assert plugin.tools() == ()
            assert plugin.status() == ()
            (gone,) = await results(runtime)
            assert gone.status is ToolStatus.ERROR
        assert all(it is asyncio.current_task() for it in asyncio.all_tasks())

    asyncio.run(scenario())


def test_a_server_that_stays_keeps_its_connection_and_one_that_changed_gets_another() -> None:
    async def scenario() -> None:
        plugin = McpPlugin([stays := local(Desk(), "stays"), changes := local(Desk(), "changes")])
        turns = [calls("mcp__stays__say", "mcp__changes__say"), "done"]
        async with playing(plugin, *turns) as (runtime, _):
            before = status(plugin, "stays")
            await plugin.apply([stays, msgspec.structs.replace(changes, call_ms=1234)])
            await plugin.wait_for_state("changes")
            assert status(plugin, "stays") == before
            assert {it.call_ms for it in plugin.servers()} == {60_000, 1234}
            assert {it.status for it in await results(runtime)} == {ToolStatus.SUCCESS}

    asyncio.run(scenario())


def test_a_run_that_began_before_a_server_was_replaced_calls_the_new_one() -> None:
    async def scenario() -> None:
        plugin = McpPlugin([server := local(Desk())])

        @tool
        async def replace() -> str:
            """Replace the server in the middle of a run."""
            await plugin.apply([msgspec.structs.replace(server, call_ms=1234)])
            await plugin.wait_for_state("desk")
            return "replaced"

        turns = [calls("replace"), calls("mcp__desk__say"), "done"]
        async with playing(plugin, *turns, tools=[replace]) as (runtime, _):
            replaced, said = await results(runtime)
            assert (replaced.status, said.status) == (ToolStatus.SUCCESS, ToolStatus.SUCCESS)

    asyncio.run(scenario())


def test_a_server_that_cannot_be_reached_delays_nothing() -> None:
    async def scenario() -> None:
        away = McpServer(name="away", transport=Stdio(command="/no/such/program"), restart=FAST)
        plugin = McpPlugin(())
        async with playing(plugin, "done"), asyncio.timeout(BOUND_S):
            await plugin.apply([away, local(Desk())])
            await plugin.wait_for_state("desk")
            await plugin.wait_for_state("away", ServerState.FAILED)

    asyncio.run(scenario())


def test_servers_that_cannot_be_accepted_change_nothing() -> None:
    async def scenario() -> None:
        plugin = McpPlugin([server := local(Desk())])
        with pytest.raises(DuplicateRegistration):
            await plugin.apply([local(Desk(), "a"), local(Desk(), "a")])
        with pytest.raises(InvalidSpec):
            await plugin.apply([McpServer(name="", transport=Stdio(command="x"))])
        assert plugin.servers() == (server,)

    asyncio.run(scenario())


def test_servers_that_are_applied_before_the_runtime_opens_start_with_it() -> None:
    async def scenario() -> None:
        plugin = McpPlugin(())
        await plugin.apply([local(Desk())])
        async with playing(plugin, calls("mcp__desk__say"), "done") as (runtime, _):
            (result,) = await results(runtime)
            assert result.status is ToolStatus.SUCCESS

    asyncio.run(scenario())


def test_an_agent_may_name_a_server_that_is_expected() -> None:
    plugin = McpPlugin(())
    agent = AgentSpec(id="a", model_id="m", sections={"mcp": {"servers": ["git"]}})
    with pytest.raises(InvalidPluginConfig):
        plugin.prepare(agent, {})
    plugin.expect(["git"])
    assert plugin.prepare(agent, {}) == frozenset()
    assert names_of(plugin) == []
