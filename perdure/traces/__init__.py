"""The trace: decoded events in, turns out, text or JSON at the end. Pure; see `perdure.traces.events` for its input."""
