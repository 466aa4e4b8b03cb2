"""The welcome page: static files that show a server to whoever opens it in a browser."""
