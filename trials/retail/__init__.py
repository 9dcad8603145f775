"""The retail trial: tau2-bench's retail desk, 114 tasks nobody here wrote, on perdure, its worker killed all the time.

The *cases* (`cases.py`) are what the reference calls give when executed directly. The *shop* (`shop.py`) is a process
that holds the toolkit and its databases and outlives workers. The *desk* (`desk.py`) is the agent, as any author would
write it. The *trial* (`__main__.py`) starts them all, kills the worker, and compares.
"""
