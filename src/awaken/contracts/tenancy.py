"""Tenant namespaces: every stored id of a tenant's thread or run starts with the tenant.

`@ann:t1` is the stored form of the id `t1` of the tenant `ann`, so that ids of two tenants never
collide. Ids without such a prefix belong to no tenant.
"""

from .identity import normalize_id

TENANT_MARK = "@"
"""What the stored ids of tenants begin with, and no others."""
_END = ":"
_ESCAPES = (("%", "%25"), (_END, "%3A"))


def namespace_of(tenant_id: str | None) -> str:
    """The prefix of a tenant's stored ids; empty without a tenant."""
    if tenant_id is None or (name := normalize_id(tenant_id)) is None:
        return ""
    for plain, escaped in _ESCAPES:
        if plain in name:
            name = name.replace(plain, escaped)
    return f"{TENANT_MARK}{name}{_END}"


def namespace_in(stored_id: str) -> str:
    """The tenant prefix of a stored id, or an empty text."""
    if stored_id[:1] != TENANT_MARK:
        return ""
    head, end, _ = stored_id.partition(_END)
    return head + end if end and len(head) > 1 else ""


def tenant_in(stored_id: str) -> str | None:
    """The tenant that a stored id belongs to, or None."""
    if stored_id[:1] != TENANT_MARK:
        return None
    name = namespace_in(stored_id)[len(TENANT_MARK) : -len(_END)]
    for plain, escaped in reversed(_ESCAPES):
        name = name.replace(escaped, plain)
    return name or None


def add_namespace(namespace: str, given: str) -> str:
    """The stored form of a tenant's id; an id that already has the prefix is unchanged."""
    return given if given.startswith(namespace) else namespace + given


def remove_namespace(namespace: str, stored: str) -> str:
    """A stored id in the form that its tenant uses."""
    return stored.removeprefix(namespace) if namespace else stored


def have_same_tenant(one: str, other: str) -> bool:
    """Whether two stored ids belong to the same tenant, or both to none."""
    if one[:1] != TENANT_MARK and other[:1] != TENANT_MARK:
        return True
    return namespace_in(one) == namespace_in(other)
