"""Makes the reference pages from the code, so that they cannot drift from it."""
