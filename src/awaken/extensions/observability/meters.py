"""The metrics of the conventions, with the bucket boundaries that the conventions define."""

from opentelemetry.metrics import Meter

from . import names

_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_AGENT_SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6]
_TOKENS = [4**power for power in range(14)]
_CALLS = [1, 2, 4, 8, 16, 32, 64, 128]


class Meters:
    """The histograms."""

    def __init__(self, meter: Meter) -> None:
        make = meter.create_histogram
        self.tokens = make(
            names.METRIC_TOKENS,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.duration = make(
            names.METRIC_DURATION,
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.first_chunk = make(
            names.METRIC_FIRST_CHUNK,
            unit="s",
            description="Time until the first chunk of a streamed answer.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.agent_duration = make(
            names.METRIC_AGENT_DURATION,
            unit="s",
            description="Duration of one invocation of an agent.",
            explicit_bucket_boundaries_advisory=_AGENT_SECONDS,
        )
        self.agent_inferences = make(
            names.METRIC_AGENT_INFERENCES,
            unit="{inference_call}",
            description="Model calls during one invocation of an agent.",
            explicit_bucket_boundaries_advisory=_CALLS,
        )
        self.agent_tools = make(
            names.METRIC_AGENT_TOOLS,
            unit="{tool_call}",
            description="Tool calls during one invocation of an agent.",
            explicit_bucket_boundaries_advisory=_CALLS,
        )
        self.tool_duration = make(
            names.METRIC_TOOL_DURATION,
            unit="s",
            description="Duration of one tool execution.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
