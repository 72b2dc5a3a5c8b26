"""What a kernel costs, line by line of its author's source, and why: `tileiras-explain`.

A tool beside the compiler, which imports none of it.
"""
