"""What each verb of the scheduler takes on a real cluster: binding, evicting, nominating, reporting.

In: decisions and updates of a cycle, events of the watches. Out: requests, and changes that are assumed of objects.
Everything here runs in the scheduler's thread unless it says otherwise.
"""
