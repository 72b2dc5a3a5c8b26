"""A compiler that stays: one process with everything loaded, which forks for each compilation.

`client` is what a command does first when `TILEIRAS_SERVER=1` or `--server` allows it; it imports
nothing heavy. `server` is the process that stays. `protocol` is what they say to each other.

A compilation in a fork is the one that the command would have done: the same descriptors, folder,
environment, limits and signals, the same code on the same arguments. Wherever that cannot be had
the command compiles by itself, and says nothing.
"""
