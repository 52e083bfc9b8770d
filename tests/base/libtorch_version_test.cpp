#include "base/libtorch_version.h"

#include <gtest/gtest.h>
#include <torch/version.h>
#include <zero/error.h>

#include <filesystem>

namespace zero::base {
namespace {

std::string refusal(const std::string& loaded, const std::string& headers) {
  try {
    check_libtorch_version(loaded, headers);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(LibtorchVersion, TheLoadedLibraryTellsTheVersionOfItsHeaders) {
  EXPECT_EQ(libtorch_version(), TORCH_VERSION);
  EXPECT_NO_THROW(require_libtorch());
}

TEST(LibtorchVersion, ThePathIsAnExistingFile) {
  EXPECT_TRUE(std::filesystem::is_regular_file(libtorch_path()))
      << libtorch_path();
}

TEST(LibtorchVersion, WhatIsOlderThan2_6IsRefusedByName) {
  for (const std::string old : {"2.5.1", "2.5.1+cpu", "1.13.0", "0.4.1"}) {
    const std::string message = refusal(old, old);
    EXPECT_NE(message.find("libtorch " + old), std::string::npos) << message;
    EXPECT_NE(message.find("2.6 or newer"), std::string::npos) << message;
    EXPECT_NE(message.find("Fix: "), std::string::npos) << message;
  }
}

TEST(LibtorchVersion, From2_6OnAllAreTaken) {
  for (const std::string good :
       {"2.6.0", "2.6.0+cpu", "2.10.0", "2.15.0.dev20250101", "3.0.0"}) {
    EXPECT_EQ(refusal(good, good), "");
  }
}

TEST(LibtorchVersion, APatchReleaseOfTheHeadersIsTaken) {
  EXPECT_EQ(refusal("2.7.1+cpu", "2.7.0"), "");
}

TEST(LibtorchVersion, AnotherMinorReleaseThanTheHeadersIsRefusedWithBoth) {
  for (const auto& [loaded, headers] :
       {std::pair<std::string, std::string>{"2.8.0", "2.7.1"},
        {"2.7.1", "2.8.0"},
        {"3.7.0", "2.7.0"},
        {"2.60.0", "2.6.0"}}) {
    const std::string message = refusal(loaded, headers);
    EXPECT_NE(message.find(loaded), std::string::npos) << message;
    EXPECT_NE(message.find(headers), std::string::npos) << message;
  }
}

TEST(LibtorchVersion, ALibraryThatDoesNotTellIsRefused) {
  for (const std::string text : {"unknown", "", "2", "x.y"}) {
    EXPECT_NE(refusal(text, "2.7.0"), "") << text;
  }
}

} // namespace
} // namespace zero::base
