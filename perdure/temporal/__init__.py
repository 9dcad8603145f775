"""The only room of the package that knows Temporal: connection, history, runs."""
