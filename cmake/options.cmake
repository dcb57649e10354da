# SPDX-License-Identifier: MIT
# How our own code is compiled: an interface target that the library, tests and benchmarks link to.
add_library(kcoro_options INTERFACE)
target_compile_options(kcoro_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -fno-omit-frame-pointer -fasynchronous-unwind-tables) # backtraces through us, on RISC-V too
# Debian's Valgrind does not read clang's newer debug information.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  add_compile_options(-gdwarf-4)
endif()
if(KCORO_WERROR)
  target_compile_options(kcoro_options INTERFACE -Werror)
endif()

include(CheckCCompilerFlag)

# Two pointers that are stored side by side are not put together in a vector register before.
check_c_compiler_flag(-fno-tree-slp-vectorize has_no_slp)
if(has_no_slp)
  target_compile_options(kcoro_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fno-tree-slp-vectorize>)
endif()

# A frame larger than the guard must not jump over it.
check_c_compiler_flag(-fstack-clash-protection has_stack_clash_protection)
if(has_stack_clash_protection)
  target_compile_options(kcoro_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fstack-clash-protection>)
endif()

# Landing pads for indirect branches, which is what our assembly can promise too.
if(arch STREQUAL "x86_64" OR CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  target_compile_options(kcoro_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-fcf-protection=branch>)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  target_compile_options(kcoro_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-mbranch-protection=bti>)
endif()

if(KCORO_SANITIZE)
  add_compile_options(
    $<$<NOT:$<COMPILE_LANGUAGE:ASM>>:-fsanitize=${KCORO_SANITIZE}>
    $<$<NOT:$<COMPILE_LANGUAGE:ASM>>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${KCORO_SANITIZE})
endif()
