"""The compiler that is installed on this machine, as a toolchain.

In a WORKSPACE file:

    load("@tileiras//:repositories.bzl", "tileiras_repositories")

    tileiras_repositories()
"""

_BUILD = """load("@tileiras//:defs.bzl", "tileiras_toolchain")

tileiras_toolchain(
    name = "compiler",
    path = {path},
    version = "version.txt",
)

toolchain(
    name = "toolchain",
    toolchain = ":compiler",
    toolchain_type = "@tileiras//:toolchain_type",
)
"""

_MISSING = "no tileiras on PATH: set TILEIRAS_EXECUTABLE to it (--repo_env=TILEIRAS_EXECUTABLE=...)"

def _local(repository_ctx):
    given = repository_ctx.os.environ.get("TILEIRAS_EXECUTABLE", "")
    path = repository_ctx.path(given) if given else repository_ctx.which("tileiras")
    if path == None or not path.exists:
        fail("no compiler at " + given if given else _MISSING)
    if hasattr(repository_ctx, "watch"):
        repository_ctx.watch(path)
    asked = repository_ctx.execute([path, "--version"])
    if asked.return_code:
        fail("%s --version: %s" % (path, asked.stderr))
    repository_ctx.file("version.txt", asked.stdout)
    repository_ctx.file("BUILD.bazel", _BUILD.format(path = repr(str(path))))

tileiras_local = repository_rule(
    implementation = _local,
    doc = "A toolchain for the tileiras that TILEIRAS_EXECUTABLE names or that is on PATH.",
    configure = True,
    environ = ["PATH", "TILEIRAS_EXECUTABLE"],
    local = True,
)

def tileiras_repositories():
    """Finds the installed compiler and registers it; for WORKSPACE files."""
    tileiras_local(name = "tileiras_local")
    native.register_toolchains("@tileiras_local//:toolchain")
