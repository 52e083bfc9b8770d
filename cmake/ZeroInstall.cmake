# What `cmake --install` puts down: the library, the program, include/zero and
# the files by which find_package(zero) finds them.

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/zero")

install(TARGETS zero EXPORT zeroTargets)
install(TARGETS zero_program)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/zero"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT zeroTargets NAMESPACE zero:: DESTINATION "${package_dir}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/zeroConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/zeroConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/zeroConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake"
              "${PROJECT_BINARY_DIR}/zeroConfig.cmake"
              "${PROJECT_BINARY_DIR}/zeroConfigVersion.cmake"
        DESTINATION "${package_dir}")
