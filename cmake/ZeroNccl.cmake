# The module of libzero for NCCL, which is loaded at run time: see
# src/comm/nccl/module.h. It is built with ZERO_WITH_NCCL, the preset `cuda`,
# from the wheels that torch itself asks for, so that a process has one NCCL and
# one CUDA runtime. No CUDA toolkit is needed, and no GPU.

if(NOT ZERO_WITH_NCCL)
  return()
endif()

set(ZERO_NVIDIA_WHEELS "" CACHE PATH
    "The folder nvidia/ of NVIDIA's wheels, if it is not beside torch")
set(nvidia_wheels "${ZERO_NVIDIA_WHEELS}")
if(NOT nvidia_wheels)
  get_filename_component(nvidia_wheels "${LibTorch_PREFIX}/../nvidia" ABSOLUTE)
endif()

# zero_find_in_wheels(RESULT PATTERN WHEEL): the file that matches
# <nvidia>/PATTERN, which that wheel has.
function(zero_find_in_wheels result pattern wheel)
  file(GLOB found "${nvidia_wheels}/${pattern}")
  if(NOT found)
    message(FATAL_ERROR
      "ZERO_WITH_NCCL: there is no ${pattern} in ${nvidia_wheels}: expected \
the wheel ${wheel}, in the version that torch asks for. Fix: run \
scripts/setup.sh --cuda, or name a folder that has it with \
-DZERO_NVIDIA_WHEELS=<site-packages>/nvidia")
  endif()
  list(GET found 0 first)
  set(${result} "${first}" PARENT_SCOPE)
endfunction()

# The last two are what nccl.h includes in the end.
zero_find_in_wheels(nccl_h nccl/include/nccl.h nvidia-nccl-cu13)
zero_find_in_wheels(nccl_library nccl/lib/libnccl.so.2 nvidia-nccl-cu13)
zero_find_in_wheels(cuda_h cu*/include/cuda_runtime_api.h nvidia-cuda-runtime)
zero_find_in_wheels(cuda_library cu*/lib/libcudart.so.* nvidia-cuda-runtime)
zero_find_in_wheels(crt_h cu*/include/crt/host_defines.h nvidia-cuda-crt)
zero_find_in_wheels(target_h cu*/include/nv/target nvidia-cuda-cccl)

get_filename_component(nccl_include "${nccl_h}" DIRECTORY)
get_filename_component(cuda_include "${cuda_h}" DIRECTORY)
get_filename_component(nccl_lib "${nccl_library}" DIRECTORY)
get_filename_component(cuda_lib "${cuda_library}" DIRECTORY)

add_library(zero_nccl MODULE "${PROJECT_SOURCE_DIR}/src/comm/nccl/module.cpp")
set_target_properties(zero_nccl PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/zero"
  INSTALL_RPATH "${nccl_lib};${cuda_lib}"
  BUILD_WITH_INSTALL_RPATH ON
  UNITY_BUILD OFF)
target_include_directories(zero_nccl PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_include_directories(zero_nccl SYSTEM PRIVATE
  "${nccl_include}" "${cuda_include}")
target_link_libraries(zero_nccl PRIVATE "${nccl_library}" "${cuda_library}")
target_link_options(zero_nccl PRIVATE LINKER:--no-undefined)
add_dependencies(zero zero_nccl)
install(TARGETS zero_nccl DESTINATION "${CMAKE_INSTALL_LIBDIR}/zero")
