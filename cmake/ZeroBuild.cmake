# How everything in this repository is compiled.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON) # for clang-tidy and editors
add_compile_options(-Wall -Wextra -Wpedantic)

if(ZERO_SANITIZE)
  set(sanitize -fsanitize=${ZERO_SANITIZE} -fno-sanitize-recover=all)
  # gcc is mistaken about what is uninitialized in the code that these add.
  add_compile_options(
    ${sanitize} -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(${sanitize})
endif()

if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()

find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

set(CMAKE_LINK_DEPENDS_NO_SHARED ON) # a new libzero needs no new programs
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# An installed program finds libzero beside itself and libtorch where it was
# when libzero was built: nobody has to set LD_LIBRARY_PATH.
set(CMAKE_INSTALL_RPATH
  "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "${LibTorch_PREFIX}/lib")

# zero_add_layer(<folder> SOURCES <file>... [DEPENDS <target>...])
#
# Compiles src/<folder> into the object library zero_<folder>. SOURCES are
# relative to that folder; DEPENDS are the layers and libraries it uses. Several
# files are compiled as one, because reading libtorch's headers takes several
# times as long as the rest; the preset `dev` compiles each file by itself.
function(zero_add_layer folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  list(TRANSFORM arg_SOURCES PREPEND "${folder}/")
  add_library(zero_${folder} OBJECT ${arg_SOURCES})
  set_target_properties(zero_${folder} PROPERTIES
    POSITION_INDEPENDENT_CODE ON UNITY_BUILD_BATCH_SIZE 8)
  target_include_directories(zero_${folder} PUBLIC
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(zero_${folder} PUBLIC
    LibTorch::LibTorch Threads::Threads ${arg_DEPENDS})
endfunction()
