"""A machine for the last stage: kernels of the llvm and nvvm dialects, run by all their threads.

It tells more than a GPU would. Bytes of shared memory that two threads touch with nothing that
orders them are an error, and so are misaligned accesses, reads of bytes that nobody wrote, bulk
copies of what the asynchronous proxy does not see, branches that threads disagree about, and warp
roles that wait for each other forever. docs/interpreter.md says how it is built.
"""

from tileiras.interpreter.threads.launch import kernels_of, run_kernel

__all__ = ["kernels_of", "run_kernel"]
