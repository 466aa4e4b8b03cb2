"""One compilation in progress: its records, what was made of them, and what is wrong."""

from collections.abc import Iterable, Mapping

from awaken.contracts.config.compiler import ConfigProblem, EffectiveConfig, EffectiveRecord
from awaken.contracts.config.publications import OVERRIDE
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.tools.tool import Tool
from awaken.runtime.resolution.registries import AgentSource

from .code_records import CodeLayer

_SHARED = {"models": "model-pools", "model-pools": "models"}
"""Namespaces that share their ids."""


class LayerBuild:
    """What becomes a managed layer. A record that cannot be used is in `broken`, with a problem."""

    def __init__(self, code: CodeLayer, config: EffectiveConfig) -> None:
        self.code = code
        self.config = config
        self.problems: list[ConfigProblem] = [*config.problems]
        self.diagnostics: list[ConfigProblem] = []
        self.broken: set[tuple[str, str]] = set()
        self.providers: dict[str, ModelClient] = {}
        self.models: dict[str, ModelSpec | ModelPool] = {}
        self.tools: dict[str, Tool] = {}
        self.own_tools: dict[str, Tool] = {}
        """Tools that agents of the code bring along, with another description."""
        self.disabled_tools: set[str] = set()
        self.plugins: dict[str, Plugin] = {}
        self.has_managed_servers = False
        """Whether the MCP plugin has servers that the code does not declare."""
        self.agents: dict[str, AgentSource] = {}
        self.unusable: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}

    def records(self, namespace: str) -> Mapping[str, EffectiveRecord]:
        """The records of a namespace that can be used so far."""
        found = self.config.records.get(namespace, {})
        return {name: it for name, it in found.items() if (namespace, name) not in self.broken}

    def candidates(self, namespace: str) -> Mapping[str, EffectiveRecord]:
        """The records of a namespace that the code does not own: all their problems are listed."""
        owned, found = self.code.records.get(namespace, {}), self.config.records.get(namespace, {})
        return {
            name: it for name, it in found.items() if it.source == OVERRIDE or name not in owned
        }

    def refuse(self, path: str, code: str, message: str, known: Iterable[str] = ()) -> None:
        """Note a problem; the record that its path begins with is broken."""
        names = tuple(sorted(known))
        self.problems.append(ConfigProblem(path=path, code=code, message=message, known=names))
        namespace, _, rest = path.partition("/")
        name = rest.partition("/")[0]
        self.broken.add((namespace, name))
        if namespace == "agents":
            self.unusable.setdefault(name, message)

    def refuse_error(self, path: str, error: Exception) -> None:
        """Note an error as a problem."""
        self.refuse(path, getattr(error, "code", "invalid"), str(error))

    def warn(self, path: str, code: str, message: str) -> None:
        """Note a diagnostic; it refuses nothing."""
        self.diagnostics.append(ConfigProblem(path=path, code=code, message=message))

    def check_owners(self) -> None:
        """Break the records that have the id of a record of the code, or each other's."""
        for namespace, records in self.config.records.items():
            shared = _SHARED.get(namespace, "")
            owned = {**self.code.records.get(namespace, {}), **self.code.records.get(shared, {})}
            others = self.config.records.get(shared, {})
            for name, record in records.items():
                path = f"{namespace}/{name}"
                if record.source == OVERRIDE:
                    continue
                if name in owned:
                    message = f"'{name}' is declared in code: rename one of the two."
                    self.refuse(path, "owned_by_code", message)
                elif name in others:
                    message = f"'{name}' is in {shared} as well: rename one of the two."
                    self.refuse(path, "duplicate_id", message)

    def names(self, namespace: str) -> set[str]:
        """The known names of a namespace: of the code and of the configuration."""
        if namespace not in self._names:
            code, managed = self.code.records, self.config.records
            self._names[namespace] = {*code.get(namespace, {}), *managed.get(namespace, {})}
        return self._names[namespace]
