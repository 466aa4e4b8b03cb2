"""References between records: which records name another, and whether it can be deleted."""

from collections.abc import Iterator, Mapping

from awaken.contracts.config.compiler import EffectiveConfig
from awaken.contracts.config.errors import RecordInUse
from awaken.contracts.config.kinds import ConfigKind

from .change_sets import Candidate, CodeRecords

_NAMED_ALIKE = {"models": ("models", "model-pools"), "model-pools": ("models", "model-pools")}
"""Namespaces that share their names: an agent names a pool like a model."""

Use = tuple[str, str, str]
"""Namespace and id of the record that names another, and the path of the field."""


def check_unused(
    candidate: Candidate,
    config: EffectiveConfig,
    kinds: Mapping[str, ConfigKind],
    code: CodeRecords,
) -> None:
    """Refuse a deletion of a record that the candidate's other records still name.

    Raises:
        RecordInUse: Names every record that uses it.
    """
    gone = {
        (it.namespace, it.id)
        for it in candidate.changes
        if it.after is None and not code.has_record(it.namespace, it.id)
    }
    if not gone:
        return
    uses = list(_list_references(config, kinds))
    for namespace, record_id in sorted(gone):
        users = tuple(
            dict.fromkeys(
                (user[0], user[1])
                for user, (wanted, name) in uses
                if name == record_id and _is_named_by(namespace, wanted, config, code, name)
            )
        )
        if users:
            names = ", ".join("/".join(it) for it in users)
            raise RecordInUse(namespace=namespace, record_id=record_id, used_by=users, users=names)


def list_users(
    config: EffectiveConfig, kinds: Mapping[str, ConfigKind], namespace: str, record_id: str
) -> list[Use]:
    """Return the records that name a record."""
    return [
        user
        for user, (wanted, name) in _list_references(config, kinds)
        if name == record_id and namespace in _NAMED_ALIKE.get(wanted, (wanted,))
    ]


def _is_named_by(
    namespace: str, wanted: str, config: EffectiveConfig, code: CodeRecords, name: str
) -> bool:
    """Whether a reference meant the record that is gone: nothing else has the name now."""
    is_alike = namespace in _NAMED_ALIKE.get(wanted, (wanted,))
    return is_alike and name not in _list_names(config, code, wanted)


def _list_names(config: EffectiveConfig, code: CodeRecords, namespace: str) -> set[str]:
    names: set[str] = set()
    for one in _NAMED_ALIKE.get(namespace, (namespace,)):
        names |= config.records.get(one, {}).keys() | code.records.get(one, {}).keys()
    return names


def _list_references(
    config: EffectiveConfig, kinds: Mapping[str, ConfigKind]
) -> Iterator[tuple[Use, tuple[str, str]]]:
    for namespace, records in config.records.items():
        for record_id, record in records.items():
            for field, wanted, name in kinds[namespace].references(record.spec):
                yield (namespace, record_id, field), (wanted, name)
