"""`perdure demo`: the leave desk, played, in a process of its own that takes this one's place.

It is an example like any other, built on what everybody has, so it lives with them: `examples/demo`.
"""

import os

import typer

from perdure import _home
from perdure.console.desk import desk


def add_to(app: typer.Typer) -> None:
    app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
        demo
    )


def demo(context: typer.Context) -> None:
    """The main job, played: the leave desk, with its worker killed on the way.

    \b
    perdure demo --yes      approve without asking
    perdure demo --help     more
    """
    command = _home.command("examples.demo", "--called", desk(context).screen.program, *context.args)
    os.execv(command[0], command)
