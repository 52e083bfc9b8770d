# Installs libzero, and builds and runs a project against what was installed.

set(prefix "${BINARY_DIR}/prefix with space")
file(REMOVE_RECURSE "${BINARY_DIR}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${ZERO_BINARY_DIR}" --prefix "${prefix}")

# Nothing of src/ is installed.
file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/*")
foreach(header IN LISTS headers)
  if(NOT header MATCHES "^zero/.+\\.h$")
    message(FATAL_ERROR "include/${header} should not be installed")
  endif()
endforeach()

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${BINARY_DIR}/build"
    -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=${prefix}")
run("${CMAKE_COMMAND}" --build "${BINARY_DIR}/build")
run("${BINARY_DIR}/build/uses_zero")
run("${prefix}/bin/zero" --version)

# A program of the installed library must not be given another libtorch.
file(WRITE "${BINARY_DIR}/old/lib/libtorch_cpu.so" "")
file(WRITE "${BINARY_DIR}/old/build-version" "2.5.1+cpu\n")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}"
          -B "${BINARY_DIR}/build_old" -G Ninja
          "-DCMAKE_PREFIX_PATH=${prefix}" "-DLIBTORCH_PREFIX=${BINARY_DIR}/old"
  ERROR_VARIABLE error RESULT_VARIABLE result OUTPUT_QUIET)
if(result EQUAL 0 OR NOT error MATCHES "libtorch 2.5.1\\+cpu")
  message(FATAL_ERROR "libtorch 2.5.1 was not refused:\n${error}")
endif()
