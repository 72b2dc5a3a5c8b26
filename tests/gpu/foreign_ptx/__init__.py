"""PTX of other compilers in the PTX machine, and the same on a GPU."""
