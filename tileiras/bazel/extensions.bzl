"""The compiler that is installed on this machine, for MODULE.bazel files."""

load("//:repositories.bzl", "tileiras_local")

def _compiler(_module_ctx):
    tileiras_local(name = "tileiras_local")

compiler = module_extension(
    implementation = _compiler,
    doc = "Finds the tileiras that TILEIRAS_EXECUTABLE names or that is on PATH.",
)
