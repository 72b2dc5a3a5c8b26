"""Rules that compile CUDA Tile IR; `tileiras --bazel-dir` prints the folder of this file.

    load("@tileiras//:defs.bzl", "tileiras_cubin")

    tileiras_cubin(
        name = "vector_add",
        src = "vector_add.mlir",
        gpu_name = "sm_90",
    )
"""

TOOLCHAIN = "@tileiras//:toolchain_type"

TileirasCubinInfo = provider(
    doc = "A compiled module of Tile IR.",
    fields = {
        "cubin": "The file that CUDA's driver loads.",
        "gpu_name": "What it was compiled for, such as sm_90.",
        "launch_info": "The JSON file that says how its kernels are launched.",
    },
)

def _cubin(ctx):
    compiler = ctx.toolchains[TOOLCHAIN]
    cubin = ctx.outputs.out or ctx.actions.declare_file(ctx.label.name + ".cubin")
    launch_info = ctx.actions.declare_file(cubin.basename + ".json", sibling = cubin)

    arguments = ctx.actions.args()
    arguments.add("--gpu-name=" + ctx.attr.gpu_name)
    for option in ctx.attr.options:
        arguments.add(ctx.expand_location(option, ctx.attr.data))
    arguments.add(launch_info, format = "--emit-launch-info=%s")
    arguments.add("-o", cubin)
    arguments.add(ctx.file.src)

    ctx.actions.run(
        executable = compiler.executable,
        arguments = [arguments],
        inputs = depset([ctx.file.src] + ctx.files.data, transitive = [compiler.files]),
        outputs = [cubin, launch_info],
        mnemonic = "TileIR",
        progress_message = "Compiling Tile IR %s for %s" % (
            ctx.file.src.short_path,
            ctx.attr.gpu_name,
        ),
        use_default_shell_env = True,
    )
    return [
        DefaultInfo(
            files = depset([cubin]),
            runfiles = ctx.runfiles(files = [cubin, launch_info]),
        ),
        OutputGroupInfo(launch_info = depset([launch_info])),
        TileirasCubinInfo(
            cubin = cubin,
            gpu_name = ctx.attr.gpu_name,
            launch_info = launch_info,
        ),
    ]

tileiras_cubin = rule(
    implementation = _cubin,
    doc = "Compiles a file of Tile IR. The output group launch_info has the JSON file beside it.",
    attrs = {
        "data": attr.label_list(
            doc = "What the options name: response files, with $(location).",
            allow_files = True,
        ),
        "gpu_name": attr.string(
            doc = "The GPU, such as sm_90.",
            mandatory = True,
        ),
        "options": attr.string_list(doc = "More options of tileiras, such as -O3."),
        "out": attr.output(doc = "The cubin; NAME.cubin if not given."),
        "src": attr.label(
            doc = "Bytecode or text of Tile IR.",
            allow_single_file = True,
            mandatory = True,
        ),
    },
    provides = [TileirasCubinInfo],
    toolchains = [TOOLCHAIN],
)

def _toolchain(ctx):
    tool = ctx.attr.compiler
    files = depset(ctx.files.version)
    executable = ctx.attr.path
    if tool:
        executable = tool[DefaultInfo].files_to_run
    if bool(tool) == bool(ctx.attr.path):
        fail("give %s either a compiler or the path of an installed one" % ctx.label)
    return [platform_common.ToolchainInfo(executable = executable, files = files)]

tileiras_toolchain = rule(
    implementation = _toolchain,
    doc = "A compiler for tileiras_cubin: wrap it in `toolchain` to register it.",
    attrs = {
        "compiler": attr.label(
            doc = "An executable target that is tileiras, such as a py_binary.",
            cfg = "exec",
            executable = True,
        ),
        "path": attr.string(doc = "The path of an installed tileiras."),
        "version": attr.label(
            doc = "A file that differs when the compiler at the path does: then all is made again.",
            allow_single_file = True,
        ),
    },
)
