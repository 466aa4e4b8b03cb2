"""Clients of others need Node and npm packages: only `make interop` collects them."""

import os

collect_ignore_glob = [] if os.environ.get("AWAKEN_INTEROP") else ["test_*.py"]
