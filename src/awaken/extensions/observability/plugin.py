"""The observability plugin: for each run, one instrument for telemetry and one for statistics."""

import os
from collections.abc import Callable, Mapping, Sequence

from awaken.contracts.clock import Clock, SystemClock
from awaken.contracts.identity import RunIdentity
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.instruments import Instrument
from awaken.contracts.plugins.plugin import ConfigSection, Plugin, PluginHost, PluginRegistrar
from awaken.contracts.plugins.statistics import Statistics
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDescriptor

from .config import (
    CONTENT_CHARS,
    SECTION,
    ContentCapture,
    ObservabilityConfig,
    config_of,
    content_of,
)
from .content import ContentWriter
from .redactor import Redactor
from .run_spans import RunInstrument
from .run_telemetry import RunTelemetry
from .state import SPANS_OF_RUN, link_span, note_span
from .statistics import RuntimeStatistics
from .telemetry import Providers, TelemetrySource


class ObservabilityPlugin(Plugin):
    """Reports runs to OpenTelemetry, and measures how long they take.

    Without `providers` it uses those of the process, and reports nothing while there are none.
    Content is captured only if the application enables it here, in the agent's section, or by
    OpenTelemetry's variable. It is always redacted, also by `redact` if that is given.
    Statistics are optional: a server keeps its own.
    """

    name = SECTION

    def __init__(
        self,
        *,
        providers: Providers | None = None,
        content: ContentCapture | str | None = None,
        content_chars: int = CONTENT_CHARS,
        redact: Callable[[str], str] | None = None,
        keeps_statistics: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._source = TelemetrySource(providers or Providers())
        wanted = content_of(os.environ) if content is None else ContentCapture(content)
        self._content = wanted
        self._writer = ContentWriter(redactor=Redactor(redact), limit=content_chars)
        self._statistics = RuntimeStatistics(clock or SystemClock())
        self._keeps_statistics = keeps_statistics
        self._has_hooks = False

    def register(self, registrar: PluginRegistrar) -> None:
        """Instrument the runs that begin with the agent."""
        # A suspended run may have stored its span in a process that had telemetry.
        registrar.key(SPANS_OF_RUN)
        registrar.instrument(self._instrument)
        if self._keeps_statistics:
            registrar.instrument(self._statistics.instrument)
        self._has_hooks = self._source.telemetry() is not None
        if self._has_hooks:
            registrar.hook(Phase.RUN_START, note_span)
            registrar.observer(Phase.RUN_START, link_span)

    async def open(self, host: PluginHost) -> None:
        """Resolve its agents again if telemetry was installed after they were resolved."""
        if not self._has_hooks and self._source.telemetry(is_urgent=True) is not None:
            await host.renew()

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section of an agent."""
        return (ConfigSection.of(SECTION, ObservabilityConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> ObservabilityConfig:
        """Check the section.

        Raises:
            InvalidPluginConfig: The section is invalid.
        """
        return config_of(agent)

    def statistics(self) -> Statistics:
        """How long agents, models and tools took over the last day, if statistics are enabled."""
        return self._statistics.snapshot()

    def _instrument(self, run: RunIdentity, agent: AgentSpec) -> Instrument | None:
        telemetry = self._source.telemetry()
        if telemetry is None:
            return None
        config = config_of(agent)
        if not config.is_watched:
            return None
        writer = self._writer
        if config.content_chars is not None:
            writer = ContentWriter(redactor=writer.redactor, limit=config.content_chars)
        watched = RunTelemetry(telemetry, run, agent, config.content or self._content, writer)
        return RunInstrument(watched)
