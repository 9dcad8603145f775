"""Logs: structlog to stderr, for people on a terminal, JSON otherwise. Events and ids; never a payload or a secret."""

import logging
import sys

import structlog


def log_to_stderr() -> None:
    """Set up structlog, and Temporal's own warnings, for this process."""
    people = sys.stderr.isatty()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
