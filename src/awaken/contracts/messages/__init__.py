"""Messages and what they consist of: content, pieces of a stream, usage, the inbox."""
