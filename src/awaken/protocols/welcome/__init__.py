"""The welcome page: static files that present the server in a browser."""
