"""The IRs of the compiler, from tiles without hardware to one thread's program, and their maths."""
