"""Every operation on every element type and many shapes, compiled, launched and compared.

A row (`rows.Row`) is one small kernel with its inputs. The modules named after families make rows;
`checking` runs one of them, `pool` runs many in worker processes, `test_operations.py` asks for
all.
"""
