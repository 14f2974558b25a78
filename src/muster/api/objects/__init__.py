"""The objects that Muster reads and writes, typed, one module for each family.

Enters: what `muster.api.kinds` decodes from files and API servers. Leaves: structs whose methods say only what their
own fields mean. Import the types from `muster.api`; a type that it does not export, from its module.
"""
