// Runs the tests of one folder, or those of one of its files:
//
//   build/bin/comm_tests
//   build/bin/comm_tests comm/faults_test.cpp
//   build/bin/comm_tests --gtest_filter=*Kills*
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <string_view>

namespace {

// A filter that lets through what is in a file; empty if nothing is.
std::string filter_for(std::string_view file) {
  const auto& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const auto& test = *suite.GetTestInfo(j);
      if (std::string_view(test.file()).ends_with(file)) {
        filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
  }
  return filter;
}

} // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && testing::GTEST_FLAG(filter) == "*") {
    testing::GTEST_FLAG(filter) = filter_for(argv[1]);
    if (testing::GTEST_FLAG(filter).empty()) {
      std::cerr << "There are no tests in " << argv[1] << std::endl;
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
