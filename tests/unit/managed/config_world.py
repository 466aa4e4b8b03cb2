"""A managed configuration over a store, with a compiler that only notes what it is asked."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, cast

import msgspec

from awaken.bootstrap.config_kinds import config_kinds
from awaken.contracts.config.compiler import (
    AgentChange,
    CompiledConfig,
    ConfigProblem,
    EffectiveConfig,
)
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.publications import encode_canonical, hash_object
from awaken.contracts.config.store import ConfigStore
from awaken.contracts.secrets import encode_reference
from awaken.contracts.specs.agents import AgentSpec
from awaken.managed.canaries import EndedRun
from awaken.managed.configuration import ConfigInspection, ManagedConfig, manage_config
from awaken.managed.effective import PublicationReader
from awaken.managed.followers import Follower
from awaken.managed.live import ConfigReport, LiveConfig
from awaken.managed.parts import Author, ConfigParts
from awaken.managed.publish_rules import PublishRules
from awaken.managed.records import RecordWrite
from awaken.managed.secret_keys import ConfiguredKeys
from awaken.managed.secrets import SecretBox, SecretResolver
from awaken.stores.memory.store import MemoryStore
from awaken.testing.fakes import FakeClock, SequentialIds

P = ParamSpec("P")

ANN = Author(id="ann")
BEN = Author(id="ben")
CODE_AGENT = AgentSpec(id="greeter", model_id="scripted", system_prompt="Greet.")


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def scenario() -> None:
            await test(*args, **kwargs)

        asyncio.run(scenario())

    return run


class NotingCompiler:
    """A `ConfigCompiler` that refuses agents with one prompt, and notes what it does."""

    def __init__(self, code: Mapping[str, AgentSpec]) -> None:
        self.code = code
        self.installed: list[int | None] = []
        self.kept: list[int | None] = []
        self.discarded = 0
        self.refused_prompt = "broken"
        self.specs: Mapping[str, Any] = {}

    def code_records(self) -> Mapping[str, Mapping[str, Any]]:
        return {"agents": self.code}

    def code_hashes(self) -> dict[str, str]:
        return {
            f"agents/{name}": hash_object(
                encode_canonical(msgspec.to_builtins(spec, enc_hook=encode_reference))
            )
            for name, spec in self.code.items()
        }

    async def compile(self, config: EffectiveConfig) -> CompiledConfig:
        broken = {
            name: "its prompt is broken"
            for name, record in config.records.get("agents", {}).items()
            if record.spec.system_prompt == self.refused_prompt
        }
        problems = tuple(
            ConfigProblem(path=f"agents/{name}/system_prompt", code="broken", message=why)
            for name, why in broken.items()
        )
        return CompiledConfig(config=config, layer=config, problems=problems, unusable=broken)

    async def install(self, compiled: CompiledConfig) -> None:
        self.installed.append(compiled.config.publication)
        agents = compiled.config.records.get("agents", {})
        self.specs = {name: record.spec for name, record in agents.items()}

    async def keep(self, compiled: CompiledConfig) -> None:
        self.kept.append(compiled.config.publication)

    async def discard(self, compiled: CompiledConfig) -> None:
        del compiled
        self.discarded += 1

    async def list_changes(self, compiled: CompiledConfig) -> tuple[AgentChange, ...]:
        del compiled
        return ()


class ConfigWorld:
    """One process with a managed configuration; several may share a store."""

    def __init__(
        self,
        store: ConfigStore | None = None,
        *,
        code: Mapping[str, AgentSpec] | None = None,
        rules: PublishRules | None = None,
        keys: str = "a:" + "A" * 43 + "=",
        ids: SequentialIds | None = None,
    ) -> None:
        self.store = MemoryStore() if store is None else store
        self.clock, self.ids = FakeClock(), ids or SequentialIds()
        self.compiler = NotingCompiler({"greeter": CODE_AGENT} if code is None else code)
        self.heads: list[ConfigHead] = []
        self.reports: list[ConfigReport] = []
        self.signals = 0
        self.ended: dict[int | None, list[EndedRun]] = {}
        self.followers: list[Follower] = []
        box = SecretBox(ConfiguredKeys({"AWAKEN_SECRET_KEYS": keys}), self.clock)
        resolver = SecretResolver(box, {})
        kinds = config_kinds()
        parts = ConfigParts(
            store=self.store,
            kinds=kinds,
            compiler=self.compiler,
            reader=PublicationReader(self.store, kinds, resolver.bind),
            box=box,
            resolver=resolver,
            clock=self.clock,
            ids=self.ids,
            version="0",
            notify_changed=self._signal,
        )
        live = LiveConfig(parts, self._apply_head, self.reports.append, lambda: 0.5)
        self.managed: ManagedConfig = manage_config(
            parts,
            live,
            rules or PublishRules(),
            self._list_followers,
            self._sample,
            # Only routes look into the process.
            cast(ConfigInspection, None),
        )

    async def put(self, record_id: str, author: Author = ANN, **fields: Any) -> int:
        """Write an agent; returns the publication."""
        body = {"model_id": "scripted", **fields}
        published = await self.managed.records.put(write_agent(record_id, author), body)
        return published.publication.no

    async def _signal(self) -> None:
        self.signals += 1

    async def _apply_head(self, head: ConfigHead) -> None:
        self.heads.append(head)

    async def _list_followers(self) -> list[Follower]:
        return self.followers

    async def _sample(self, publication: int | None, since: int) -> list[EndedRun]:
        del since
        return self.ended.get(publication, [])


def write_agent(record_id: str, author: Author = ANN, **rest: Any) -> RecordWrite:
    """The write of one agent."""
    return RecordWrite(namespace="agents", id=record_id, author=author, **rest)
