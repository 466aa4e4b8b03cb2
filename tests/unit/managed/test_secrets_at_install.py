"""What is installed may use its secrets at once, in the process that published them."""

from typing import Any

from awaken.contracts.config.compiler import CompiledConfig
from awaken.managed.records import RecordWrite

from .config_world import ANN, ConfigWorld, in_loop


@in_loop
async def test_a_secret_of_a_record_can_be_read_when_the_record_is_installed() -> None:
    world = ConfigWorld()
    install, seen = world.compiler.install, list[str]()

    async def note_secret(compiled: CompiledConfig) -> None:
        seen.append(world.managed.parts.resolver.resolve("store:providers/mine/api_key"))
        await install(compiled)

    compiler: Any = world.compiler
    compiler.install = note_secret
    write = RecordWrite(namespace="providers", id="mine", author=ANN)
    for key in ("sk-1", "sk-2"):
        body = {"adapter": "openai", "api_key": key, "timeout_secs": len(seen) + 1}
        await world.managed.records.put(write, body)
    assert seen == ["sk-1", "sk-2"]
