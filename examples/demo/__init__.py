"""The leave desk, played: `make demo`, or `perdure demo`. Its worker is killed in mid-call, and nothing is lost.

Read `show.py`: it is the play. `stage.py` sets it (server, worker, model), `kept.py` remembers what an interrupted one
needs, `voice.py` and `prompt.py` face the person. It is built from what everybody has: the embedded server, the
worker as it ships, `Runs`, and the trace.
"""
