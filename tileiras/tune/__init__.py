"""The best hints and tile constants for a kernel of cuTile Python: `tileiras-tune`.

A tool beside the compiler, which imports none of it. Every candidate is made and launched in
processes of its own.
"""
