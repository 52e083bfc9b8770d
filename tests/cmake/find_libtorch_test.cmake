# Shows FindLibTorch.cmake all sorts of libtorchs and looks at which it takes.

file(REMOVE_RECURSE "${WORK_DIR}")
unset(ENV{LIBTORCH_PREFIX})
set(project "${WORK_DIR}/project")
file(COPY "${CMAKE_CURRENT_LIST_DIR}/find_libtorch/" DESTINATION "${project}")

# expect(<text that cmake prints> <cmake arguments>...)
#
# Configures the project, which works exactly when the text says "Found".
function(expect text)
  file(REMOVE_RECURSE "${WORK_DIR}/build")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${project}" -B "${WORK_DIR}/build" -G Ninja
            "-DZERO_SOURCE_DIR=${SOURCE_DIR}" ${ARGN}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  string(REGEX REPLACE "[ \n]+" " " output "${output}") # cmake wraps errors
  string(FIND "${output}" "${text}" place)
  string(COMPARE EQUAL "${result}" 0 worked)
  string(FIND "${text}" "Found" should_work)
  if(place EQUAL -1 OR (should_work EQUAL -1) EQUAL worked)
    message(FATAL_ERROR "expected: ${text}\ngot: ${output}")
  endif()
  message("ok: ${text}")
endfunction()

# Makes what the search looks at in a libtorch.
function(fake prefix version_file version)
  file(WRITE "${prefix}/lib/libtorch_cpu.so" "")
  file(WRITE "${prefix}/${version_file}" "${version}\n")
endfunction()

# A python3 that has no torch, until one is put on its path.
set(ENV{PYTHONPATH} "${WORK_DIR}/python")
file(WRITE "${WORK_DIR}/bin/python3" "#!/bin/sh\nexec \"$PYTHON3\" -S \"$@\"")
file(CHMOD "${WORK_DIR}/bin/python3" PERMISSIONS OWNER_READ OWNER_EXECUTE)
find_program(python3 python3 REQUIRED)
set(ENV{PYTHON3} "${python3}")
set(ENV{PATH} "${WORK_DIR}/bin:$ENV{PATH}")

expect("python3 has no torch, and neither has .venv")

set(venv "${project}/.venv/lib/python3.11/site-packages/torch")
fake("${venv}" version.py "__version__ = '2.7.0'")
expect("Found LibTorch: ${venv} (found version \"2.7.0\")")

set(package "${WORK_DIR}/python/torch")
fake("${package}" version.py "__version__ = '2.8.0+cu126'")
file(WRITE "${package}/__init__.py" "raise ImportError('no libcudnn')\n")
expect("Found LibTorch: ${package} (found version \"2.8.0+cu126\")")

# One that is too old is passed over while there is another.
fake("${package}" version.py "__version__ = '2.5.1'")
expect("Found LibTorch: ${venv}")
file(REMOVE_RECURSE "${venv}")
expect("libtorch 2.5.1 in ${package} is too old: libzero needs 2.6 or newer")

# A prefix that was named is used, or the reason is given.
set(old "${WORK_DIR}/old libtorch")
fake("${old}" build-version 1.13.1+cpu)
expect("libtorch 1.13.1+cpu in ${old} is too old" "-DLIBTORCH_PREFIX=${old}")
expect("no lib/libtorch_cpu.so in ${WORK_DIR}/none"
       "-DLIBTORCH_PREFIX=${WORK_DIR}/none")
set(header include/torch/csrc/api/include/torch/version.h)
fake("${WORK_DIR}/headers" ${header} "#define TORCH_VERSION \"2.9.1\"")
expect("Found LibTorch: ${WORK_DIR}/headers (found version \"2.9.1\")"
       "-DCMAKE_PREFIX_PATH=${WORK_DIR}/headers/share/cmake")

# The layout of the archive, without python around it, is good to link with.
set(archive "${WORK_DIR}/archive")
file(MAKE_DIRECTORY "${archive}")
foreach(name lib include share)
  file(CREATE_LINK "${LIBTORCH_DIR}/${name}" "${archive}/${name}" SYMBOLIC)
endforeach()
file(WRITE "${archive}/build-version" "2.15.0+cpu\n")
set(ENV{LIBTORCH_PREFIX} "${archive}")
expect("Found LibTorch: ${archive} (found version \"2.15.0+cpu\")" -DPROGRAM=ON)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/build"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/build/finds_libtorch"
                COMMAND_ERROR_IS_FATAL ANY)
