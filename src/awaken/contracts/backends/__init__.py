"""The port of execution backends: requests, capabilities, errors."""
