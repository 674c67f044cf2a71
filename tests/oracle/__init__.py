"""The planner as it was before it was rewritten, beside the planner of today.

``planner.zip`` holds it under another name. The same generated worlds go through both, and what
they decide must be equal; what differs on purpose is named in ``test_planner.py``. The package goes
with the rewriting.
"""
