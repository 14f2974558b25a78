"""The thread that talks to the API server, and everything that is on its way to it or back.

In: requests of the scheduler's thread, events and answers of the server. Out: an inbox of both, and the objects as they
will be when everything that was asked for has happened.
"""
