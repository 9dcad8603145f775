"""Agents a newcomer can run: `leave_desk.py` first. `demo/` plays it, with its worker killed on the way."""
