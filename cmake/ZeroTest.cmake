# How tests are built and run. Included by tests/CMakeLists.txt, whose folder
# the file names below are relative to.

if(LibTorch_CXX11_ABI)
  find_package(GTest REQUIRED)
else()
  # An installed gtest has the new ABI of std::string; Debian's package brings
  # its sources along.
  add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=0)
  add_subdirectory(/usr/src/googletest googletest EXCLUDE_FROM_ALL)
endif()

# Tests are compiled more often than they are run. Undefined behaviour is sought
# in the library: looking for it in tests too doubles the time to compile them.
add_compile_options(-O1)
if(ZERO_SANITIZE MATCHES undefined)
  add_compile_options(-fno-sanitize=undefined)
endif()

# All that an asan or tsan build is for.
add_custom_target(sanitize_tests DEPENDS zero_program)

# Ranks share the cores, so each one computes with one thread.
set(zero_test_environment
  ZERO_VERIFY=1 OMP_NUM_THREADS=1 "ZERO_PROGRAM=$<TARGET_FILE:zero_program>")
if(ZERO_SANITIZE)
  set(suppressions "${CMAKE_CURRENT_SOURCE_DIR}/sanitizers/tsan.supp")
  list(APPEND zero_test_environment
    "TSAN_OPTIONS=suppressions=${suppressions} second_deadlock_stack=1"
    "ASAN_OPTIONS=detect_stack_use_after_return=1"
    "UBSAN_OPTIONS=print_stacktrace=1")

  # gcc's tsan cannot place its memory where the kernel randomises more than 28
  # bits of addresses.
  file(STRINGS /proc/sys/vm/mmap_rnd_bits random_bits)
  if(ZERO_SANITIZE STREQUAL thread AND random_bits GREATER 28)
    set(zero_test_launcher setarch --addr-no-randomize)
  endif()
endif()

# zero_add_test(<file> [LABELS <label>...] [SANITIZE address|thread...]
#               [TIMEOUT <seconds>])
#
# Makes a test of a file: comm/all_reduce_test.cpp becomes comm_all_reduce_test.
# The files of a folder are one program, comm_tests, because reading gtest and
# libtorch takes longer than the rest of several tests. SANITIZE says which of the
# asan and tsan builds run it; they have nothing else.
function(zero_add_test file)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;SANITIZE")
  if(ZERO_SANITIZE)
    string(REGEX REPLACE ",.*" "" sanitizer "${ZERO_SANITIZE}")
    if(NOT sanitizer IN_LIST arg_SANITIZE)
      return()
    endif()
    list(APPEND arg_LABELS sanitize)
  endif()

  get_filename_component(folder "${file}" DIRECTORY)
  set(program ${folder}_tests)
  if(NOT TARGET ${program})
    add_executable(${program} main.cpp)
    set_target_properties(${program} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
    add_dependencies(${program} zero_program)
    add_dependencies(sanitize_tests ${program})
    target_include_directories(${program} PRIVATE
      "${PROJECT_SOURCE_DIR}/src" "${CMAKE_CURRENT_SOURCE_DIR}")
    target_link_libraries(${program} PRIVATE
      zero nlohmann_json::nlohmann_json GTest::gtest)
  endif()
  target_sources(${program} PRIVATE ${file})

  string(REGEX REPLACE "\\.cpp$" "" name "${file}")
  string(REPLACE "/" "_" name "${name}")
  add_test(NAME ${name}
    COMMAND ${zero_test_launcher} $<TARGET_FILE:${program}> ${file})
  _zero_test_properties(${name})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "${zero_test_environment}")
endfunction()

# zero_add_script_test(<file> [LABELS <label>...] [TIMEOUT <seconds>])
#
# Makes a test of a CMake script. It gets the folders SOURCE_DIR and BINARY_DIR
# of libzero, WORK_DIR for itself, and LIBTORCH_DIR.
function(zero_add_script_test file)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS")
  string(REGEX REPLACE "\\.cmake$" "" name "${file}")
  string(REPLACE "/" "_" name "${name}")
  add_test(NAME ${name}
    COMMAND "${CMAKE_COMMAND}"
            "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}"
            "-DBINARY_DIR=${PROJECT_BINARY_DIR}"
            "-DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/${name}"
            "-DLIBTORCH_DIR=${LibTorch_PREFIX}"
            -P "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  _zero_test_properties(${name})
endfunction()

# zero_add_check(<name> [LABELS <label>...] [TIMEOUT <seconds>])
#
# Makes the test check_<name> of scripts/checks/check_<name>.py.
function(zero_add_check name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS")
  add_test(NAME check_${name}
    COMMAND python3 "${PROJECT_SOURCE_DIR}/scripts/checks/check_${name}.py"
            "${PROJECT_BINARY_DIR}")
  _zero_test_properties(check_${name})
  # What a check returns where the tool it runs is not installed.
  set_tests_properties(check_${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# Sets what LABELS and TIMEOUT of the functions above say. A timeout ends what
# hangs; under a sanitizer, beside other tests, what does not hang may take ten
# times as long.
macro(_zero_test_properties name)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(ZERO_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3")
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endmacro()
