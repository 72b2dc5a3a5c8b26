"""Random programs of the whole language, by this compiler and NVIDIA's, beside the interpreter.

`programs` makes them, `prepare` compiles and interprets them, `launches` runs them on a GPU.
"""
