"""The command `tileiras-layout`: layouts of expressions, of atoms, and of tensors in a dump."""
