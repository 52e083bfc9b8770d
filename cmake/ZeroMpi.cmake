# A module of libzero for each MPI that is found, which is loaded at run time:
# see src/comm/mpi/module.h. Without any, ranks are started by zero run or
# torchrun.

# zero_add_mpi_module(NAME): for the MPI of that name, if its compiler is there.
function(zero_add_mpi_module name)
  # Where scripts/setup.sh puts it, then as Debian calls it.
  find_program(ZERO_MPICXX_${name} NAMES mpicxx NO_DEFAULT_PATH
    PATHS "${PROJECT_SOURCE_DIR}/.mpi/${name}/bin"
    DOC "The C++ compiler of ${name}")
  find_program(ZERO_MPICXX_${name} NAMES mpicxx.${name})
  if(NOT ZERO_MPICXX_${name})
    return()
  endif()
  set(source "${PROJECT_SOURCE_DIR}/src/comm/mpi/module")
  set(folder "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/zero")
  set(module "${folder}/libzero_${name}.so")
  add_custom_command(OUTPUT "${module}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
    COMMAND "${ZERO_MPICXX_${name}}" -std=c++17 -O2 -fPIC -shared -Wall -Wextra
            -Werror "-I${PROJECT_SOURCE_DIR}/src" "${source}.cpp" -o "${module}"
    DEPENDS "${source}.cpp" "${source}.h"
    COMMENT "Building the module for ${name}")
  add_custom_target(zero_mpi_${name} DEPENDS "${module}")
  add_dependencies(zero zero_mpi_${name})
  install(FILES "${module}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/zero")
endfunction()

zero_add_mpi_module(openmpi)
zero_add_mpi_module(mpich)
