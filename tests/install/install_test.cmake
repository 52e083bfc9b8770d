# Installs libzero, and builds and runs a project against what was installed.

set(prefix "${WORK_DIR}/prefix with space")
file(REMOVE_RECURSE "${WORK_DIR}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BINARY_DIR}" --prefix "${prefix}")

# Nothing of src/ is installed.
file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/*")
foreach(header IN LISTS headers)
  if(NOT header MATCHES "^zero/.+\\.h$")
    message(FATAL_ERROR "include/${header} should not be installed")
  endif()
endforeach()

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK_DIR}/build"
    -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=${prefix}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
run("${WORK_DIR}/build/uses_zero")
run("${prefix}/bin/zero" run -n 2 "${WORK_DIR}/build/uses_zero")

# The installed package refuses an old libtorch, as the build does.
file(WRITE "${WORK_DIR}/old/lib/libtorch_cpu.so" "")
file(WRITE "${WORK_DIR}/old/build-version" "2.5.1+cpu\n")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}"
          -B "${WORK_DIR}/build_old" -G Ninja
          "-DCMAKE_PREFIX_PATH=${prefix}" "-DLIBTORCH_PREFIX=${WORK_DIR}/old"
  ERROR_VARIABLE error RESULT_VARIABLE result OUTPUT_QUIET)
if(result EQUAL 0 OR NOT error MATCHES "libtorch 2.5.1\\+cpu")
  message(FATAL_ERROR "libtorch 2.5.1 was not refused:\n${error}")
endif()
