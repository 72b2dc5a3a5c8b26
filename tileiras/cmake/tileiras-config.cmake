# find_package(tileiras CONFIG) with the folder that `tileiras --cmake-dir` prints.
#
#   tileiras_add_cubin(TARGET INPUT ARCH [OUTPUT FILE] [OPTIONS ...])
#
# A target TARGET that compiles INPUT (Tile IR bytecode or text) for ARCH, such as sm_90. The cubin is
# OUTPUT, or TARGET.cubin in the build folder; TARGET's property TILEIRAS_CUBIN has its path, and
# TILEIRAS_LAUNCH_INFO that of the JSON file with how to launch the kernels. It is made again when the
# input or a response file among the OPTIONS changes. TILEIRAS_EXECUTABLE is the compiler.

find_program(TILEIRAS_EXECUTABLE tileiras DOC "The compiler for CUDA Tile IR")
if(NOT TILEIRAS_EXECUTABLE)
  set(tileiras_FOUND FALSE)
  set(tileiras_NOT_FOUND_MESSAGE "no tileiras on PATH: set TILEIRAS_EXECUTABLE to it")
  return()
endif()

function(tileiras_add_cubin target input arch)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "OUTPUT" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tileiras_add_cubin: unknown argument '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  get_filename_component(source "${input}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT arg_OUTPUT)
    set(arg_OUTPUT "${target}.cubin")
  endif()
  get_filename_component(cubin "${arg_OUTPUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  add_custom_command(
    OUTPUT "${cubin}"
    BYPRODUCTS "${cubin}.json"
    COMMAND "${TILEIRAS_EXECUTABLE}" "--gpu-name=${arch}" ${arg_OPTIONS} "--depfile=${cubin}.d"
            "--emit-launch-info=${cubin}.json" -o "${cubin}" "${source}"
    DEPENDS "${source}"
    DEPFILE "${cubin}.d"
    COMMENT "Compiling Tile IR ${input} for ${arch}"
    VERBATIM)
  add_custom_target(${target} ALL DEPENDS "${cubin}")
  set_target_properties(${target} PROPERTIES TILEIRAS_CUBIN "${cubin}"
                                             TILEIRAS_LAUNCH_INFO "${cubin}.json")
endfunction()
