"""Whose an id is: every stored id of a tenant's thread or run begins with the tenant.

`@ann:t1` is what the tenant `ann` calls `t1`. So two tenants never choose the same id, whatever
they choose. Ids without such a beginning belong to no tenant.
"""

from .identity import present

TENANT_MARK = "@"
"""What the stored ids of tenants begin with, and no others."""
_END = ":"
_ESCAPES = (("%", "%25"), (_END, "%3A"))


def namespace_of(tenant_id: str | None) -> str:
    """What the stored ids of a tenant begin with; of none, nothing."""
    if tenant_id is None or (name := present(tenant_id)) is None:
        return ""
    for plain, escaped in _ESCAPES:
        if plain in name:
            name = name.replace(plain, escaped)
    return f"{TENANT_MARK}{name}{_END}"


def namespace_in(stored_id: str) -> str:
    """What a stored id begins with, if it is a tenant's."""
    if stored_id[:1] != TENANT_MARK:
        return ""
    head, end, _ = stored_id.partition(_END)
    return head + end if end and len(head) > 1 else ""


def tenant_in(stored_id: str) -> str | None:
    """The tenant that a stored id belongs to."""
    if stored_id[:1] != TENANT_MARK:
        return None
    name = namespace_in(stored_id)[len(TENANT_MARK) : -len(_END)]
    for plain, escaped in reversed(_ESCAPES):
        name = name.replace(escaped, plain)
    return name or None


def stored_id(namespace: str, given: str) -> str:
    """The stored form of an id that a tenant gives; one that has it already stays as it is."""
    return given if given.startswith(namespace) else namespace + given


def shown_id(namespace: str, stored: str) -> str:
    """An id as its tenant knows it."""
    return stored.removeprefix(namespace) if namespace else stored


def have_same_tenant(one: str, other: str) -> bool:
    """Whether two stored ids are of one tenant, or both of none."""
    if one[:1] != TENANT_MARK and other[:1] != TENANT_MARK:
        return True
    return namespace_in(one) == namespace_in(other)
