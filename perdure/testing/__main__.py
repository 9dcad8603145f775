"""`python -m perdure.testing script.yaml`: serves a script until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from perdure.testing.script import ScriptError
from perdure.testing.script_file import FORMAT, load_scripts
from perdure.testing.server import ScriptedModel


def main(given: Sequence[str] | None = None, *, prog: str = "python -m perdure.testing") -> int:
    """Runs the command, `prog` in its help. Returns 0 after Ctrl-C, 2 for a wrong script or an unusable address."""
    asked = _parser(prog).parse_args(given)
    try:
        scripts = load_scripts(asked.script, asked.model)
        model = ScriptedModel(
            *scripts,
            host=asked.host,
            port=asked.port,
            key=asked.key,
            strict_models=asked.strict_models,
            record_bytes=0,
        )
    except (ScriptError, OSError) as wrong:
        sys.stderr.write(f"scripted model: {wrong}\n")
        return 2
    told = [f"# scripted model on {model.url}, Ctrl-C ends it"]
    told += [f"export {name}={value}" for name, value in model.env().items()]
    sys.stdout.write("\n".join(told) + "\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        model.serve()
    return 0


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Serves a scripted model over HTTP: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions.",
        epilog=FORMAT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("script", type=Path, help="the script, YAML or JSON; see below")
    parser.add_argument("--port", type=int, default=0, help="the port to serve on (default: a free one)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to serve on (default: loopback)")
    parser.add_argument("--model", help="the model name the script answers to, instead of the file's")
    parser.add_argument("--key", help="the only API key to accept (default: any)")
    parser.add_argument("--strict-models", action="store_true", help="answer 404 to model names no script answers to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
