"""Which new runs try the publication that is not live yet."""

from hashlib import blake2b

import msgspec

from awaken.contracts.config.heads import CanaryKey
from awaken.contracts.runs.records import RunRequest

BASIS_POINTS = 10_000


class CanaryChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A publication that a share of new runs takes."""

    publication: int
    salt: str
    """Makes the choice of threads differ from one canary to the next."""
    basis_points: int
    """The share of the runs, in hundredths of a percent."""
    by: CanaryKey = CanaryKey.THREAD

    def choose(self, request: RunRequest, thread_id: str) -> int | None:
        """Return the publication if a new run takes it; None if it takes the live one.

        The choice depends on the key alone: a thread, a user or a tenant stays on its side. A
        request that names its publication gets that one, and a child has its parent's.
        """
        if request.publication is not None or request.parent_run_id is not None:
            return request.publication
        match self.by:
            case CanaryKey.USER:
                key = request.user_id
            case CanaryKey.TENANT:
                key = request.tenant_id
            case CanaryKey.THREAD:
                key = None
        digest = blake2b(f"{self.salt}\0{key or thread_id}".encode(), digest_size=8).digest()
        is_chosen = int.from_bytes(digest) % BASIS_POINTS < self.basis_points
        return self.publication if is_chosen else None
