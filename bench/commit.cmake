# SPDX-License-Identifier: MIT
# Run at each build (cmake -P): writes the commit that is being built into a header, if it has
# changed. "unknown": there is no git, no repository or no commit.
cmake_minimum_required(VERSION 3.18)
set(commit "unknown")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --short HEAD
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit "${head}")
    execute_process(
      COMMAND ${git} --no-optional-locks -C ${SOURCE} diff --quiet HEAD -- src include bench
      RESULT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND commit ", with changes")
    endif()
  endif()
endif()
set(text "#define KB_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${HEADER} "${text}")
endif()
