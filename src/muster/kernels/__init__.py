"""Compiled number crunching: arrays in, arrays out, nothing of Muster's objects inside."""
