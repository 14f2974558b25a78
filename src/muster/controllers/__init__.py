"""Controllers: what people apply becomes the objects that scheduling works on, and is kept so until it ends.

Enters: events of an API server's objects. Leaves: plans, lists of requests to that server. Nothing here sends one or
knows the scheduler; a runner for the embedded cluster and one for a real server carry plans out.
"""
