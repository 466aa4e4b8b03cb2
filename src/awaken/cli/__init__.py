"""The command line: parses arguments, calls the runtime, prints. It has no other behaviour."""
