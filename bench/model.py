"""A model that answers at once: so many calls of `fetch` as its task says ("20 steps of 5000 bytes"), then done."""

import sys

from perdure.testing import Script, ScriptedModel, call, say
from perdure.testing.script import Part, Seen


def reply(seen: Seen) -> Part:
    if "steps of" not in seen.task:
        return say("a summary")
    steps, size = (int(word) for word in seen.task.split() if word.isdigit())
    done = int(seen.latest[0].split()[1].rstrip(":")) + 1 if seen.latest else 0  # turns are not counted: old ones go
    return call("fetch", step=done, size=size) if done < steps else say("done")


if __name__ == "__main__":
    model = ScriptedModel(Script(reply))
    for name, value in model.env().items():
        print(f"{name}={value}")
    print(flush=True)
    try:
        model.serve()
    except KeyboardInterrupt:
        sys.exit(0)
