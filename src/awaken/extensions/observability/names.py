"""Every name that telemetry uses.

Names with `awaken` are this project's; all others are in the registry of the GenAI semantic
conventions, in the versions that a test names.
"""

AGENT_DESCRIPTION = "gen_ai.agent.description"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
CONVERSATION_ID = "gen_ai.conversation.id"
INPUT_MESSAGES = "gen_ai.input.messages"
OPERATION_NAME = "gen_ai.operation.name"
OUTPUT_MESSAGES = "gen_ai.output.messages"
OUTPUT_TYPE = "gen_ai.output.type"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_REASONING_LEVEL = "gen_ai.request.reasoning.level"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_DESCRIPTION = "gen_ai.tool.description"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
USAGE_INPUT = "gen_ai.usage.input_tokens"
USAGE_OUTPUT = "gen_ai.usage.output_tokens"
USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens"

ERROR_TYPE = "error.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_TYPE = "exception.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

EVENT_DETAILS = "gen_ai.client.inference.operation.details"
EVENT_EXCEPTION = "gen_ai.client.operation.exception"

METRIC_TOKENS = "gen_ai.client.token.usage"
METRIC_DURATION = "gen_ai.client.operation.duration"
METRIC_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
METRIC_AGENT_DURATION = "gen_ai.invoke_agent.duration"
METRIC_AGENT_INFERENCES = "gen_ai.invoke_agent.inference_calls"
METRIC_AGENT_TOOLS = "gen_ai.invoke_agent.tool_calls"
METRIC_TOOL_DURATION = "gen_ai.execute_tool.duration"

ADAPTER = "awaken.adapter"
"""The protocol of the request."""
AGENT = "awaken.agent.id"
"""The active agent; after a handoff it differs from the agent of the run's span."""
ATTEMPT = "awaken.tool.attempt"
IS_CONTINUED = "awaken.run.is_continued"
MODEL = "awaken.model.id"
"""The model id of the agent; the conventions record the vendor's model."""
PARENT_RUN = "awaken.parent_run.id"
RUN = "awaken.run.id"
STEP = "awaken.step"
SUSPENSION_ACTION = "awaken.suspension.action"
TENANT = "awaken.tenant.id"
TERMINATION = "awaken.termination"
TOOL_STATUS = "awaken.tool.status"

EVENT_HANDED_OVER = "awaken.handed_over"
EVENT_SUSPENDED = "awaken.suspended"

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}


def provider_name(provider: str) -> str:
    """The name of a provider in the conventions; an unknown provider keeps its own name."""
    return _PROVIDERS.get(provider, provider)
