"""What actions are made of: lines of queues and jobs, domains and constraints, boards, placing, evictions.

Enters: a session, which asks the plugins. Leaves: places and victims in a statement, or the reason why there are none.
No plugin is known by name here, and no action.
"""
