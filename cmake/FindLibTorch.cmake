# Finds a libtorch of version 2.6 or newer. LIBTORCH_PREFIX, a variable or in
# the environment, names the one to use; without it the first of these is taken:
#
#   1. what Torch_DIR or CMAKE_PREFIX_PATH point at
#   2. the torch that python3 would import
#   3. the torch in the project's own environment, .venv
#
# A prefix is the torch/ folder of a wheel or an unpacked libtorch archive, for
# CPU or CUDA. Torch's own TorchConfig.cmake is not used: in a CUDA wheel it
# asks for a CUDA toolkit, and libzero links nothing of CUDA.
#
# Defines the target LibTorch::LibTorch, and LibTorch_PREFIX, LibTorch_VERSION
# and LibTorch_CXX11_ABI.

cmake_minimum_required(VERSION 3.22)
set(_libtorch_oldest 2.6)

# Sets <result> to the version of the libtorch in <prefix>, empty if there is
# none. An archive has build-version and a wheel version.py; the headers, in
# their new and old place, are for packages that have neither.
function(_libtorch_version result prefix)
  set(${result} "" PARENT_SCOPE)
  if(NOT EXISTS "${prefix}/lib/libtorch_cpu.so")
    return()
  endif()
  foreach(file build-version version.py include/torch/headeronly/version.h
               include/torch/csrc/api/include/torch/version.h)
    if(EXISTS "${prefix}/${file}")
      file(READ "${prefix}/${file}" text)
      if(text MATCHES "[0-9]+\\.[0-9]+\\.[0-9]+[0-9a-z.+]*")
        set(${result} "${CMAKE_MATCH_0}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# Sets <result> to the places to look at when LIBTORCH_PREFIX is not given.
function(_libtorch_search result)
  set(places)
  if(Torch_DIR) # <prefix>/share/cmake/Torch
    list(APPEND places "${Torch_DIR}/../../..")
  endif()
  foreach(path IN LISTS CMAKE_PREFIX_PATH)
    # The second is for torch.utils.cmake_prefix_path, <prefix>/share/cmake.
    list(APPEND places "${path}" "${path}/../..")
  endforeach()

  # Only located, not imported: an import runs torch, and fails where some of
  # what it needs is not installed.
  execute_process(
    COMMAND python3 -c "import importlib.util as u
print(*u.find_spec('torch').submodule_search_locations)"
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE ignored)
  list(APPEND places "${path}")

  set(venv "${PROJECT_SOURCE_DIR}/.venv")
  file(GLOB paths "${venv}/lib/python3*/site-packages/torch")
  list(APPEND places ${paths})
  set(${result} "${places}" PARENT_SCOPE)
endfunction()

if(NOT LIBTORCH_PREFIX AND DEFINED ENV{LIBTORCH_PREFIX})
  # Kept, so that configuring again without the environment changes nothing.
  set(LIBTORCH_PREFIX "$ENV{LIBTORCH_PREFIX}" CACHE PATH
      "Where libtorch is: a wheel's torch/ or an unpacked archive" FORCE)
endif()
if(LIBTORCH_PREFIX)
  set(_libtorch_places "${LIBTORCH_PREFIX}")
  set(_libtorch_reason "There is no lib/libtorch_cpu.so in ${LIBTORCH_PREFIX}.")
else()
  _libtorch_search(_libtorch_places)
  set(_libtorch_reason
      "python3 has no torch, and neither has .venv. Run scripts/setup.sh, or \
name a libtorch with -DLIBTORCH_PREFIX=<prefix>.")
endif()

unset(LibTorch_PREFIX)
unset(LibTorch_VERSION)
foreach(_libtorch_place IN LISTS _libtorch_places)
  get_filename_component(_libtorch_place "${_libtorch_place}" ABSOLUTE)
  _libtorch_version(_libtorch_version "${_libtorch_place}")
  if(_libtorch_version VERSION_GREATER_EQUAL _libtorch_oldest)
    set(LibTorch_PREFIX "${_libtorch_place}")
    set(LibTorch_VERSION "${_libtorch_version}")
    break()
  elseif(_libtorch_version)
    set(_libtorch_reason
        "libtorch ${_libtorch_version} in ${_libtorch_place} is too old: \
libzero needs ${_libtorch_oldest} or newer.")
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_PREFIX
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${_libtorch_reason}")

# Wheels up to 2.6 keep the old ABI of std::string, and say so in this file.
set(LibTorch_CXX11_ABI 1)
set(_libtorch_config "${LibTorch_PREFIX}/share/cmake/Torch/TorchConfig.cmake")
if(LibTorch_FOUND AND EXISTS "${_libtorch_config}")
  file(STRINGS "${_libtorch_config}" _libtorch_old_abi
       REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  if(_libtorch_old_abi)
    set(LibTorch_CXX11_ABI 0)
  endif()
endif()

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES
    IMPORTED_LOCATION "${LibTorch_PREFIX}/lib/libc10.so")

  add_library(LibTorch::LibTorch SHARED IMPORTED)
  set_target_properties(LibTorch::LibTorch PROPERTIES
    IMPORTED_LOCATION "${LibTorch_PREFIX}/lib/libtorch_cpu.so")
  target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::c10)
  target_include_directories(LibTorch::LibTorch INTERFACE
    "${LibTorch_PREFIX}/include"
    "${LibTorch_PREFIX}/include/torch/csrc/api/include")
  if(NOT LibTorch_CXX11_ABI)
    target_compile_definitions(LibTorch::LibTorch INTERFACE
      _GLIBCXX_USE_CXX11_ABI=0)
  endif()

  # In a CUDA wheel libtorch_cpu.so needs libraries of the wheels beside it. Its
  # own rpath finds them when a program starts, the linker has to be told.
  file(GLOB _libtorch_beside "${LibTorch_PREFIX}/../nvidia/*/lib")
  foreach(_libtorch_place "${LibTorch_PREFIX}/lib" ${_libtorch_beside})
    target_link_options(LibTorch::LibTorch INTERFACE
      "LINKER:-rpath-link,${_libtorch_place}")
  endforeach()
endif()
