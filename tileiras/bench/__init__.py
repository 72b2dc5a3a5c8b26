"""How fast a kernel is on this machine's GPU, and how it stands to another: `tileiras-bench`.

A tool beside the compiler, which imports none of it.
"""
