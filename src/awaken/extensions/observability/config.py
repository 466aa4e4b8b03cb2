"""The section `observability` of an agent, and its default from the environment."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta

from awaken.contracts.errors import InvalidPluginConfig, InvalidValue, KeyCodecError
from awaken.contracts.record import StrictRecord
from awaken.contracts.specs.agents import AgentSpec

SECTION = "observability"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's variable for the capture of content."""
CONTENT_CHARS = 8_192


class ContentCapture(StrEnum):
    """Where messages, arguments and results are recorded, redacted and cut."""

    NOTHING = "no_content"
    SPANS = "span_only"
    EVENTS = "event_only"
    BOTH = "span_and_event"

    @classmethod
    def _missing_(cls, value: object) -> "ContentCapture":
        raise InvalidValue(what=f"content {value!r}", problem=f"write one of {', '.join(cls)}")

    @property
    def is_on_spans(self) -> bool:
        """Whether spans carry content."""
        return self in (ContentCapture.SPANS, ContentCapture.BOTH)

    @property
    def is_on_events(self) -> bool:
        """Whether events carry content."""
        return self in (ContentCapture.EVENTS, ContentCapture.BOTH)


class ObservabilityConfig(StrictRecord, frozen=True, kw_only=True):
    """What is recorded about one agent; absent fields default to those of the plugin."""

    section: ClassVar[str] = SECTION

    is_watched: bool = True
    """Whether runs that begin with this agent have spans and metrics."""
    content: ContentCapture | None = None
    content_chars: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """The maximum length of each text."""


def config_of(agent: AgentSpec) -> ObservabilityConfig:
    """Read the agent's section.

    Raises:
        InvalidPluginConfig: The section is invalid.
    """
    try:
        return agent.config(SECTION, ObservabilityConfig)
    except KeyCodecError as error:
        raise InvalidPluginConfig(
            section=SECTION, agent_id=agent.id, problem=error.problem
        ) from error


def content_of(environment: Mapping[str, str]) -> ContentCapture:
    """The capture mode that the environment sets; an unknown value captures nothing."""
    wanted = environment.get(CONTENT_VARIABLE, "").strip().lower()
    try:
        return ContentCapture(wanted)
    except ValueError:
        return ContentCapture.NOTHING
