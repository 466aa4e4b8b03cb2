"""Models: which one an agent uses, what a request carries, what it may cost, and the provider port.

`ModelSpec`, `ModelPool` and `ProviderSpec` configure models. `ModelClient` is the protocol that a
provider implements; it takes an `InferenceRequest` and yields `ModelEvent`s.
"""

from awaken.contracts.messages.message import (
    TokenUsage,
)
from awaken.contracts.models.addresses import ServerAddress
from awaken.contracts.models.budgets import (
    Allowance,
    Amount,
    Budget,
    BudgetScope,
    OwnPrices,
    PriceList,
)
from awaken.contracts.models.inference import (
    Addressed,
    Alive,
    BlockStop,
    CallSignature,
    CompactionMode,
    ContextWindowPolicy,
    Effort,
    EffortBudget,
    InferenceFailure,
    InferenceOverride,
    InferenceRequest,
    ModelClient,
    ModelEvent,
    ModelTool,
    ReasoningEffort,
    Stop,
    StopReason,
    StreamResult,
    ThinkingSignature,
    UsageReport,
    VendorAnswer,
)
from awaken.contracts.models.model_specs import (
    Modalities,
    Modality,
    ModelPool,
    ModelPrices,
    ModelSpec,
    PoolMember,
    PoolRole,
    PoolRouting,
    ProviderSpec,
    RetryPolicy,
)
from awaken.contracts.secrets import (
    RedactedString,
)
from awaken.contracts.state.context_state import (
    SUMMARY_SYSTEM_PROMPT,
    SUMMARY_USER_PROMPT,
    CompactionConfig,
)

__all__ = [
    "SUMMARY_SYSTEM_PROMPT",
    "SUMMARY_USER_PROMPT",
    "Addressed",
    "Alive",
    "Allowance",
    "Amount",
    "BlockStop",
    "Budget",
    "BudgetScope",
    "CallSignature",
    "CompactionConfig",
    "CompactionMode",
    "ContextWindowPolicy",
    "Effort",
    "EffortBudget",
    "InferenceFailure",
    "InferenceOverride",
    "InferenceRequest",
    "Modalities",
    "Modality",
    "ModelClient",
    "ModelEvent",
    "ModelPool",
    "ModelPrices",
    "ModelSpec",
    "ModelTool",
    "OwnPrices",
    "PoolMember",
    "PoolRole",
    "PoolRouting",
    "PriceList",
    "ProviderSpec",
    "ReasoningEffort",
    "RedactedString",
    "RetryPolicy",
    "ServerAddress",
    "Stop",
    "StopReason",
    "StreamResult",
    "ThinkingSignature",
    "TokenUsage",
    "UsageReport",
    "VendorAnswer",
]
