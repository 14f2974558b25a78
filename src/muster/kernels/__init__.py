"""Compiled number crunching: arrays in, arrays out, nothing of Muster's objects inside.

Enters: columns, and memory that the caller owns. Leaves: numbers in it. Every kernel has a plain-Python twin in the
tests that it must equal.
"""
