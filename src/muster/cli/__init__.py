"""The `muster` command.

Enters: a command line, and files or a live cluster. Leaves: text for people or JSON, and an exit code. `commands`,
`installation` and `topology` hold options and help and import nothing heavy; what they do stands in the other modules.
"""
