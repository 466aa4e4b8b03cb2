"""The configuration that this process runs on: it follows the head of the store.

A process that publishes installs what it compiled; every other one reads the head, compiles the
publication against its own code, and installs it. What does not compile here is unusable here, and
everything else is on the new publication: a process is never on an older one because of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from awaken.contracts.config.compiler import CompiledConfig, ConfigProblem
from awaken.contracts.config.errors import UnknownPublication
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.store import ConfigReceipt
from awaken.contracts.errors import StorageError

from .parts import ConfigParts

logger = logging.getLogger(__name__)

POLL_MS = 2_000
"""How often a process reads the head if no signal tells it to."""
JITTER = 0.2
"""The random share of the pause, so that processes do not ask at the same moment."""


class ConfigReport(msgspec.Struct, frozen=True, kw_only=True):
    """What this process has applied, as its worker entry shows it."""

    publication: int | None = None
    revision: int = 0
    applied_at: int | None = None
    unusable: Mapping[str, str] = {}
    problems: tuple[ConfigProblem, ...] = ()
    problem: str | None = None
    """Why the head could not be applied at all, such as a lost publication."""
    trial: int | None = None
    """The publication of a trial that this process has compiled."""
    trial_problems: tuple[ConfigProblem, ...] = ()


class LiveConfig:
    """Applies heads in this process, one after the other."""

    def __init__(
        self,
        parts: ConfigParts,
        apply_head: Callable[[ConfigHead], Awaitable[None]],
        report: Callable[[ConfigReport], None],
        chance: Callable[[], float],
        pinned: int | None = None,
    ) -> None:
        self._parts = parts
        self._apply_head = apply_head
        self._report = report
        self._chance = chance
        self.pinned = pinned
        """The publication that this process stays on, for rescue; None follows the head."""
        self.publishing = asyncio.Lock()
        """Held by a publisher of this process from reading the head until it has installed."""
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._compiled: CompiledConfig | None = None
        self._unknown_head = True
        self._secrets_at: int | None = None
        self.watchers: list[Callable[[ConfigHead, ConfigHead], None]] = []
        """Called with the head before and after whenever another one was applied here."""
        self.head = ConfigHead()
        """The head that was applied last."""
        self.applied = ConfigReport()

    @property
    def diagnostics(self) -> tuple[ConfigProblem, ...]:
        """Warnings and problems of the installed configuration, in this process."""
        if self._compiled is None:
            return ()
        return (*self.applied.problems, *self._compiled.diagnostics)

    def list_specs(self, namespace: str) -> list[Any]:
        """Return the records of a namespace of the installed configuration, by id.

        One that this process cannot read is left out; it is in `diagnostics`.
        """
        if self._compiled is None:
            return []
        found = self._compiled.config.records.get(namespace, {})
        return [found[name].spec for name in sorted(found)]

    async def open(self) -> None:
        """Apply the head, and follow it from now on; idempotent."""
        if self._follower is not None:
            return
        await self.refresh()
        self._follower = asyncio.create_task(self._follow(), name="configuration")

    async def close(self) -> None:
        """Stop following; what is installed stays installed."""
        task, self._follower = self._follower, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def wake(self) -> None:
        """Read the head soon: a signal came from another process."""
        self._wake.set()

    async def refresh(self) -> None:
        """Read the head now, and apply it if it has changed.

        Raises:
            StorageError: The store did not answer; what is installed stays installed.
        """
        async with self._turn:
            head = await self._parts.read_head()
            if head.revision != self.head.revision or self._unknown_head:
                await self._apply(head)

    async def take_published(self, compiled: CompiledConfig, receipt: ConfigReceipt) -> None:
        """Install what this process has compiled and published, without compiling it again."""
        publication, head = receipt.publication, receipt.head
        assert publication is not None
        config = msgspec.structs.replace(compiled.config, publication=publication.no)
        numbered = msgspec.structs.replace(compiled, config=config)
        async with self._turn:
            # A newer head may have been applied meanwhile; an older one never replaces it.
            is_newest = head is not None and head.revision > self.head.revision
            is_live = head is not None and head.publication == publication.no
            if head is not None and is_newest:
                # What is installed connects at once, with the secrets that came with it.
                await self._load_secrets(head)
            if is_newest and is_live and self.pinned is None:
                await self._install(numbered)
            else:
                await self._parts.compiler.keep(numbered)
            if head is not None and is_newest:
                await self._apply(head, kept=publication.no)
        await self.notify_others()

    async def notify_others(self) -> None:
        """Tell the other processes to read the head; without the signal they read it later."""
        try:
            await self._parts.notify_changed()
        except StorageError as error:
            logger.warning("The other processes were not told of the configuration: %s", error)

    async def _apply(self, head: ConfigHead, kept: int | None = None) -> None:
        """Apply a head; `kept` is a publication that is compiled and kept already."""
        await self._load_secrets(head)
        problem: str | None = None
        wanted = head.publication if self.pinned is None else self.pinned
        if wanted is not None and wanted != self.applied.publication:
            problem = await self._load(wanted)
        canary = head.canary
        if canary is not None and canary != self.head.canary and canary.publication != kept:
            problem = await self._keep(canary.publication) or problem
        trial_problems: tuple[ConfigProblem, ...] = ()
        if head.trial is not None and head.trial != self.applied.trial:
            trial_problems = await self._try(head.trial)
        elif head.trial is not None:
            trial_problems = self.applied.trial_problems
        await self._apply_head(head)
        before, self.head, self._unknown_head = self.head, head, False
        self.applied = msgspec.structs.replace(
            self.applied,
            revision=head.revision,
            problem=problem,
            trial=head.trial,
            trial_problems=trial_problems,
        )
        self._report(self.applied)
        for watcher in self.watchers:
            watcher(before, head)

    async def _load_secrets(self, head: ConfigHead) -> None:
        """Read the stored secrets again if they have changed since they were read here."""
        if head.secrets_at != self._secrets_at:
            await self._parts.resolver.reload(self._parts.store)
            self._secrets_at = head.secrets_at

    async def _load(self, no: int) -> str | None:
        """Compile a publication and install it; returns why that was impossible."""
        try:
            compiled = await self._compile(no)
        except UnknownPublication as error:
            logger.error("The configuration cannot be applied: %s", error)
            return str(error)
        for name, why in compiled.unusable.items():
            logger.error("Agent '%s' of publication %d cannot be used here: %s", name, no, why)
        await self._install(compiled)
        return None

    async def _keep(self, no: int) -> str | None:
        try:
            await self._parts.compiler.keep(await self._compile(no))
        except UnknownPublication as error:
            return str(error)
        return None

    async def _try(self, no: int) -> tuple[ConfigProblem, ...]:
        """Compile a publication that is to become live, and return what is wrong with it here."""
        try:
            compiled = await self._compile(no)
        except UnknownPublication as error:
            return (ConfigProblem(path="", code=error.code, message=str(error)),)
        await self._parts.compiler.discard(compiled)
        # What cannot be used here already is lost by no new publication.
        known = {f"agents/{name}" for name in self.applied.unusable}
        known |= {_record_of(it) for it in self.applied.problems}
        problems = dict.fromkeys((*compiled.config.problems, *compiled.problems))
        return tuple(it for it in problems if _record_of(it) not in known)

    async def _compile(self, no: int) -> CompiledConfig:
        publication = await self._parts.reader.load_publication(no)
        config = await self._parts.reader.read_effective(
            publication.manifest, self._parts.code, publication.no
        )
        return await self._parts.compiler.compile(config)

    async def _install(self, compiled: CompiledConfig) -> None:
        await self._parts.compiler.install(compiled)
        self._compiled = compiled
        self.applied = msgspec.structs.replace(
            self.applied,
            publication=compiled.config.publication,
            applied_at=self._parts.clock.now_ms(),
            unusable=compiled.unusable,
            problems=(*compiled.config.problems, *compiled.problems),
        )

    async def _follow(self) -> None:
        while True:
            pause = POLL_MS / 1000 * (1 - JITTER * self._chance())
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self.refresh()
            except StorageError as error:
                # The next look succeeds when the store is back; meanwhile nothing changes.
                logger.warning("The configuration could not be read: %s", error)
            except Exception:
                logger.exception("The configuration could not be applied.")


def _record_of(problem: ConfigProblem) -> str:
    """The record that a problem is about, as `namespace/id`."""
    return "/".join(problem.path.split("/")[:2])
