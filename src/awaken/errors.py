"""Every error that awaken raises, except those of an extension or of a command.

All are subclasses of `AwakenError` and have a stable `code`.
"""

from typing import TYPE_CHECKING

from awaken._deferred_imports import defer_imports

if TYPE_CHECKING:
    from awaken.authoring.output import OutputInvalid
    from awaken.authoring.validators import OutputRejected, ValidatorFailed
    from awaken.backends.a2a.failures import (
        RemoteNotFound,
        RemoteNotReached,
        RemoteOutcomeUnknown,
        RemoteTaskEnded,
        RemoteTaskUnknown,
    )
    from awaken.contracts.errors import (
        AgentPaused,
        AlreadyDecided,
        AlreadyExists,
        AmbiguousId,
        AwakenError,
        BaseRevisionMismatch,
        CommitUnknown,
        CorruptRecord,
        CursorExpired,
        CursorInvalid,
        DedupeConflict,
        DemoRecord,
        DependenciesFailed,
        DuplicateRegistration,
        HandlerAlreadyRegistered,
        IdempotencyConflict,
        IllegalTransition,
        InstructionsFailed,
        InvalidContext,
        InvalidInput,
        InvalidPluginConfig,
        InvalidRecord,
        InvalidResume,
        InvalidSpec,
        InvalidTranscript,
        InvalidValue,
        KeyAlreadyRegistered,
        KeyCodecError,
        LeaseLost,
        LimitExceeded,
        MergeConflict,
        Misuse,
        NothingToResume,
        NotServedHere,
        PhaseNotConverging,
        PluginAlreadyInstalled,
        PluginFailed,
        PluginGivenTwice,
        PluginNotInstalled,
        ProfileCodecError,
        QueueFull,
        RecordNotFound,
        RefusedInput,
        RevisionConflict,
        RunError,
        RunFailed,
        StateError,
        StorageError,
        StoreCorrupt,
        StoreFull,
        StoreTooNew,
        StoreUnavailable,
        TenantQueueFull,
        ThreadBusy,
        ThreadClaimed,
        ThreadHasWorkflow,
        UnknownAgent,
        UnknownAnswer,
        UnknownDefaultAgent,
        UnknownHandler,
        UnknownKey,
        UnknownProfileKey,
        UnknownProvider,
        UnknownReference,
        UnknownRun,
        UnknownThread,
        UnknownTicket,
        UnsupportedFeature,
        UsageError,
        VersionConflict,
    )
    from awaken.contracts.evals.errors import (
        CannotRecord,
        CannotReplay,
        DatasetConflict,
        EvalError,
        EvalExists,
        EvalsUnavailable,
        InvalidDataset,
        InvalidEval,
        InvalidGate,
        InvalidScorer,
        NotComparable,
        RecordedFailure,
        RecordingEnded,
        ReplayDiverged,
        ReplayTimedOut,
        TooManyReplays,
        UnknownCase,
        UnknownDataset,
        UnknownEval,
        UnknownReplay,
    )
    from awaken.contracts.models.budgets import BudgetExceeded
    from awaken.contracts.resolver_errors import AgentResolverFailed
    from awaken.contracts.secrets import SecretUnresolved
    from awaken.contracts.specs.remote_registries import (
        AgentNotDiscovered,
        AgentRefused,
        CardUnavailable,
        DiscoveryError,
        InvalidCard,
        UnsupportedInterface,
    )
    from awaken.contracts.specs.skills import SkillUnavailable
    from awaken.contracts.storage.store import CancelWanted, DecidedMeanwhile
    from awaken.contracts.tools.sub_runs import MessageNotSent
    from awaken.contracts.tools.tool import (
        ExecutionFailed,
        InvalidArguments,
        Retry,
        ToolDenied,
        ToolError,
        ToolInternalError,
        ToolNotFound,
        ToolTimeout,
    )
    from awaken.outbound.credentials import AuthorizationFailed, LoginRequired
    from awaken.outbound.private_files import UnusableFile
    from awaken.patterns.errors import PatternError
    from awaken.protocols.acp.permissions import PromptFailed
    from awaken.runtime.admission.continuation import CannotGoOn
    from awaken.runtime.journal.known_messages import AlreadySaid
    from awaken.runtime.journal.leases import RunHandedOver, RuntimeClosing
    from awaken.runtime.journal.streams import ReaderDropped
    from awaken.runtime.loop.session_tools import SessionEnded
    from awaken.server.addresses import UnsafeExposure
    from awaken.services.previews import ThreadNotOfPreview
    from awaken.services.repins import RepinRefused

    # isort: off
    # fmt: off
    from awaken.contracts.backends.errors import (
        AgentNotFound, BackendExecutionFailed, ExecutionBackendError, InvalidBackendConfig,
        RemoteError, RemoteMalformed, RemoteRefused, RemoteTooLarge, RemoteUnreachable,
        RemoteUnsupported,
    )
    from awaken.contracts.config.errors import (
        AgentUnusable, CanaryConflict, ConfigError, ConfigNotEnabled, DraftConflict,
        DraftHasConflicts, DraftNotFound, DraftTooLarge, HeadMoved, InvalidConfig, LiveConflict,
        MissingSecrets, NoCanary, OwnedByCode, PublishRefused, RecordConflict, RecordExists,
        RecordInUse, RefusedByWorkers, SecretInUse, SecretsUnavailable, SwitchConflict,
        UnknownConfigRecord, UnknownNamespace, UnknownPublication, UnknownSecret, UnknownSwitch,
        VersionNotFound, VersionUnusable,
    )
    from awaken.contracts.workflows.errors import (
        EventIdReused, EventInvalid, EventRefused, ForeignTask, InvalidWorkflowInput,
        NotAWorkflow, OutcomeUnknown, ResetRefused, ResultTooLarge, RunHasEnded, RunStillQueued,
        StepBlocked, StepDeclined, StepFailed, StepTimedOut, TooManyEvents, TooManySteps,
        ValueTooLarge, WorkflowError, WorkflowMisuse, WorkflowResultInvalid,
    )
    from awaken.contracts.memory.errors import (
        EmbeddingFailed, FactExists, MemoryFull, MemoryUnavailable, NoMemoryOwner,
        UnknownDocument, UnknownFact, UnreadableDocument,
    )
    from awaken.contracts.models.errors import (
        AllModelsUnavailable, AnswerTooLarge, ContentFiltered, ContextOverflow,
        InvalidRequest, MalformedAnswer, ModelDisabled, ModelError, ModelNotFound,
        ModelTimeout, Overloaded, ProviderBroken, ProviderFailed, ProviderUnusable,
        QuotaExceeded, RateLimited, StreamInterrupted, TransportFailed, Unauthorized,
    )
    from awaken.contracts.storage.schedule_errors import (
        HookRefused, HookUnreadable, NotTheCreator, RightsUnverifiable, ScheduleChanged,
        ScheduleUsedUp, SecretNotAllowed, TriggerPaused, UnknownSchedule, UnknownTrigger,
    )
    from awaken.contracts.suspension.errors import (
        AmbiguousTicket, ArgumentsChanged, EditDenied, FrontendToolConflict, InvalidDecision,
        InvalidEdit,
    )
    from awaken.contracts.tasks import (
        DuplicateTaskName, ParentRunCancelled, ReservedTaskName, TaskError, TaskHasNoInbox,
        TaskIdTaken, TaskLimitReached, TaskNotFound, TaskNotOwned, TaskTerminated,
        TooManyHops,
    )
    # fmt: on
    # isort: on

__all__ = [
    "AgentNotDiscovered",
    "AgentNotFound",
    "AgentPaused",
    "AgentRefused",
    "AgentResolverFailed",
    "AgentUnusable",
    "AllModelsUnavailable",
    "AlreadyDecided",
    "AlreadyExists",
    "AlreadySaid",
    "AmbiguousId",
    "AmbiguousTicket",
    "AnswerTooLarge",
    "ArgumentsChanged",
    "AuthorizationFailed",
    "AwakenError",
    "BackendExecutionFailed",
    "BaseRevisionMismatch",
    "BudgetExceeded",
    "CanaryConflict",
    "CancelWanted",
    "CannotGoOn",
    "CannotRecord",
    "CannotReplay",
    "CardUnavailable",
    "CommitUnknown",
    "ConfigError",
    "ConfigNotEnabled",
    "ContentFiltered",
    "ContextOverflow",
    "CorruptRecord",
    "CursorExpired",
    "CursorInvalid",
    "DatasetConflict",
    "DecidedMeanwhile",
    "DedupeConflict",
    "DemoRecord",
    "DependenciesFailed",
    "DiscoveryError",
    "DraftConflict",
    "DraftHasConflicts",
    "DraftNotFound",
    "DraftTooLarge",
    "DuplicateRegistration",
    "DuplicateTaskName",
    "EditDenied",
    "EmbeddingFailed",
    "EvalError",
    "EvalExists",
    "EvalsUnavailable",
    "EventIdReused",
    "EventInvalid",
    "EventRefused",
    "ExecutionBackendError",
    "ExecutionFailed",
    "FactExists",
    "ForeignTask",
    "FrontendToolConflict",
    "HandlerAlreadyRegistered",
    "HeadMoved",
    "HookRefused",
    "HookUnreadable",
    "IdempotencyConflict",
    "IllegalTransition",
    "InstructionsFailed",
    "InvalidArguments",
    "InvalidBackendConfig",
    "InvalidCard",
    "InvalidConfig",
    "InvalidContext",
    "InvalidDataset",
    "InvalidDecision",
    "InvalidEdit",
    "InvalidEval",
    "InvalidGate",
    "InvalidInput",
    "InvalidPluginConfig",
    "InvalidRecord",
    "InvalidRequest",
    "InvalidResume",
    "InvalidScorer",
    "InvalidSpec",
    "InvalidTranscript",
    "InvalidValue",
    "InvalidWorkflowInput",
    "KeyAlreadyRegistered",
    "KeyCodecError",
    "LeaseLost",
    "LimitExceeded",
    "LiveConflict",
    "LoginRequired",
    "MalformedAnswer",
    "MemoryFull",
    "MemoryUnavailable",
    "MergeConflict",
    "MessageNotSent",
    "MissingSecrets",
    "Misuse",
    "ModelDisabled",
    "ModelError",
    "ModelNotFound",
    "ModelTimeout",
    "NoCanary",
    "NoMemoryOwner",
    "NotAWorkflow",
    "NotComparable",
    "NotServedHere",
    "NotTheCreator",
    "NothingToResume",
    "OutcomeUnknown",
    "OutputInvalid",
    "OutputRejected",
    "Overloaded",
    "OwnedByCode",
    "ParentRunCancelled",
    "PatternError",
    "PhaseNotConverging",
    "PluginAlreadyInstalled",
    "PluginFailed",
    "PluginGivenTwice",
    "PluginNotInstalled",
    "ProfileCodecError",
    "PromptFailed",
    "ProviderBroken",
    "ProviderFailed",
    "ProviderUnusable",
    "PublishRefused",
    "QueueFull",
    "QuotaExceeded",
    "RateLimited",
    "ReaderDropped",
    "RecordConflict",
    "RecordExists",
    "RecordInUse",
    "RecordNotFound",
    "RecordedFailure",
    "RecordingEnded",
    "RefusedByWorkers",
    "RefusedInput",
    "RemoteError",
    "RemoteMalformed",
    "RemoteNotFound",
    "RemoteNotReached",
    "RemoteOutcomeUnknown",
    "RemoteRefused",
    "RemoteTaskEnded",
    "RemoteTaskUnknown",
    "RemoteTooLarge",
    "RemoteUnreachable",
    "RemoteUnsupported",
    "RepinRefused",
    "ReplayDiverged",
    "ReplayTimedOut",
    "ReservedTaskName",
    "ResetRefused",
    "ResultTooLarge",
    "Retry",
    "RevisionConflict",
    "RightsUnverifiable",
    "RunError",
    "RunFailed",
    "RunHandedOver",
    "RunHasEnded",
    "RunStillQueued",
    "RuntimeClosing",
    "ScheduleChanged",
    "ScheduleUsedUp",
    "SecretInUse",
    "SecretNotAllowed",
    "SecretUnresolved",
    "SecretsUnavailable",
    "SessionEnded",
    "SkillUnavailable",
    "StateError",
    "StepBlocked",
    "StepDeclined",
    "StepFailed",
    "StepTimedOut",
    "StorageError",
    "StoreCorrupt",
    "StoreFull",
    "StoreTooNew",
    "StoreUnavailable",
    "StreamInterrupted",
    "SwitchConflict",
    "TaskError",
    "TaskHasNoInbox",
    "TaskIdTaken",
    "TaskLimitReached",
    "TaskNotFound",
    "TaskNotOwned",
    "TaskTerminated",
    "TenantQueueFull",
    "ThreadBusy",
    "ThreadClaimed",
    "ThreadHasWorkflow",
    "ThreadNotOfPreview",
    "TooManyEvents",
    "TooManyHops",
    "TooManyReplays",
    "TooManySteps",
    "ToolDenied",
    "ToolError",
    "ToolInternalError",
    "ToolNotFound",
    "ToolTimeout",
    "TransportFailed",
    "TriggerPaused",
    "Unauthorized",
    "UnknownAgent",
    "UnknownAnswer",
    "UnknownCase",
    "UnknownConfigRecord",
    "UnknownDataset",
    "UnknownDefaultAgent",
    "UnknownDocument",
    "UnknownEval",
    "UnknownFact",
    "UnknownHandler",
    "UnknownKey",
    "UnknownNamespace",
    "UnknownProfileKey",
    "UnknownProvider",
    "UnknownPublication",
    "UnknownReference",
    "UnknownReplay",
    "UnknownRun",
    "UnknownSchedule",
    "UnknownSecret",
    "UnknownSwitch",
    "UnknownThread",
    "UnknownTicket",
    "UnknownTrigger",
    "UnreadableDocument",
    "UnsafeExposure",
    "UnsupportedFeature",
    "UnsupportedInterface",
    "UnusableFile",
    "UsageError",
    "ValidatorFailed",
    "ValueTooLarge",
    "VersionConflict",
    "VersionNotFound",
    "VersionUnusable",
    "WorkflowError",
    "WorkflowMisuse",
    "WorkflowResultInvalid",
]

_NAMES_OF = {
    "awaken.authoring.output": "OutputInvalid",
    "awaken.authoring.validators": "OutputRejected ValidatorFailed",
    "awaken.backends.a2a.failures": """
        RemoteNotFound RemoteNotReached RemoteOutcomeUnknown RemoteTaskEnded RemoteTaskUnknown
    """,
    "awaken.contracts.backends.errors": """
        AgentNotFound BackendExecutionFailed ExecutionBackendError InvalidBackendConfig RemoteError
        RemoteMalformed RemoteRefused RemoteTooLarge RemoteUnreachable RemoteUnsupported
    """,
    "awaken.contracts.config.errors": """
        AgentUnusable CanaryConflict ConfigError ConfigNotEnabled DraftConflict DraftHasConflicts
        DraftNotFound DraftTooLarge HeadMoved InvalidConfig LiveConflict MissingSecrets NoCanary
        OwnedByCode PublishRefused RecordConflict RecordExists RecordInUse RefusedByWorkers
        SecretInUse SecretsUnavailable SwitchConflict UnknownConfigRecord UnknownNamespace
        UnknownPublication UnknownSecret UnknownSwitch VersionNotFound VersionUnusable
    """,
    "awaken.contracts.errors": """
        AgentPaused AlreadyDecided AlreadyExists AmbiguousId AwakenError BaseRevisionMismatch
        CommitUnknown CorruptRecord CursorExpired CursorInvalid DedupeConflict DemoRecord
        DependenciesFailed DuplicateRegistration HandlerAlreadyRegistered IdempotencyConflict
        IllegalTransition InstructionsFailed InvalidContext InvalidInput InvalidPluginConfig
        InvalidRecord InvalidResume InvalidSpec InvalidTranscript InvalidValue KeyAlreadyRegistered
        KeyCodecError LeaseLost LimitExceeded MergeConflict Misuse NotServedHere NothingToResume
        PhaseNotConverging PluginAlreadyInstalled PluginFailed PluginGivenTwice PluginNotInstalled
        ProfileCodecError QueueFull RecordNotFound RefusedInput RevisionConflict RunError RunFailed
        StateError StorageError StoreCorrupt StoreFull StoreTooNew StoreUnavailable TenantQueueFull
        ThreadBusy ThreadClaimed ThreadHasWorkflow UnknownAgent UnknownAnswer UnknownDefaultAgent
        UnknownHandler UnknownKey UnknownProfileKey UnknownProvider UnknownReference UnknownRun
        UnknownThread UnknownTicket UnsupportedFeature UsageError VersionConflict
    """,
    "awaken.contracts.memory.errors": """
        EmbeddingFailed FactExists MemoryFull MemoryUnavailable NoMemoryOwner UnknownDocument
        UnknownFact UnreadableDocument
    """,
    "awaken.contracts.evals.errors": """
        CannotRecord CannotReplay DatasetConflict EvalError EvalExists EvalsUnavailable
        InvalidDataset InvalidEval InvalidGate InvalidScorer NotComparable RecordedFailure
        RecordingEnded ReplayDiverged ReplayTimedOut TooManyReplays UnknownCase UnknownDataset
        UnknownEval UnknownReplay
    """,
    "awaken.contracts.models.budgets": "BudgetExceeded",
    "awaken.contracts.models.errors": """
        AllModelsUnavailable AnswerTooLarge ContentFiltered ContextOverflow InvalidRequest
        MalformedAnswer ModelDisabled ModelError ModelNotFound ModelTimeout Overloaded
        ProviderBroken ProviderFailed ProviderUnusable QuotaExceeded RateLimited StreamInterrupted
        TransportFailed Unauthorized
    """,
    "awaken.contracts.resolver_errors": "AgentResolverFailed",
    "awaken.contracts.secrets": "SecretUnresolved",
    "awaken.contracts.specs.remote_registries": """
        AgentNotDiscovered AgentRefused CardUnavailable DiscoveryError InvalidCard
        UnsupportedInterface
    """,
    "awaken.contracts.specs.skills": "SkillUnavailable",
    "awaken.contracts.storage.schedule_errors": """
        HookRefused HookUnreadable NotTheCreator RightsUnverifiable ScheduleChanged ScheduleUsedUp
        SecretNotAllowed TriggerPaused UnknownSchedule UnknownTrigger
    """,
    "awaken.contracts.storage.store": "CancelWanted DecidedMeanwhile",
    "awaken.contracts.suspension.errors": """
        AmbiguousTicket ArgumentsChanged EditDenied FrontendToolConflict InvalidDecision InvalidEdit
    """,
    "awaken.contracts.tasks": """
        DuplicateTaskName ParentRunCancelled ReservedTaskName TaskError TaskHasNoInbox TaskIdTaken
        TaskLimitReached TaskNotFound TaskNotOwned TaskTerminated TooManyHops
    """,
    "awaken.contracts.tools.sub_runs": "MessageNotSent",
    "awaken.contracts.tools.tool": """
        ExecutionFailed InvalidArguments Retry ToolDenied ToolError ToolInternalError ToolNotFound
        ToolTimeout
    """,
    "awaken.outbound.credentials": "AuthorizationFailed LoginRequired",
    "awaken.outbound.private_files": "UnusableFile",
    "awaken.patterns.errors": "PatternError",
    "awaken.protocols.acp.permissions": "PromptFailed",
    "awaken.runtime.admission.continuation": "CannotGoOn",
    "awaken.runtime.journal.known_messages": "AlreadySaid",
    "awaken.runtime.journal.leases": "RunHandedOver RuntimeClosing",
    "awaken.runtime.journal.streams": "ReaderDropped",
    "awaken.runtime.loop.session_tools": "SessionEnded",
    "awaken.server.addresses": "UnsafeExposure",
    "awaken.services.previews": "ThreadNotOfPreview",
    "awaken.services.repins": "RepinRefused",
    "awaken.contracts.workflows.errors": """
        EventIdReused EventInvalid EventRefused ForeignTask InvalidWorkflowInput NotAWorkflow
        OutcomeUnknown ResetRefused ResultTooLarge RunHasEnded RunStillQueued StepBlocked
        StepDeclined StepFailed StepTimedOut TooManyEvents TooManySteps ValueTooLarge
        WorkflowError WorkflowMisuse WorkflowResultInvalid
    """,
}
"""The names that are imported from each module."""

if not TYPE_CHECKING:  # Type checkers see the imports above, and refuse every other name.
    _HOMES = {name: home for home, names in _NAMES_OF.items() for name in names.split()}
    __getattr__, __dir__ = defer_imports(__name__, _HOMES)
