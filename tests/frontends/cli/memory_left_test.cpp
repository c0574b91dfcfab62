// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "frontends/cli/reading/memory_limit.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

class MemoryLeft : public remora::test::TemporaryFolder {
 protected:
  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    write(name, text);
  }
  void SetUp() override {
    TemporaryFolder::SetUp();
    put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    2000 kB\nSwapFree: 500 kB\n");
  }
};

TEST_F(MemoryLeft, IsWhatTheMachineHas) {
  EXPECT_EQ(memory_left(folder()), 2500U * 1024);
  EXPECT_FALSE(memory_left(folder() + "/nowhere"));
  EXPECT_TRUE(memory_left());
}

TEST_F(MemoryLeft, IsLessInAControlGroupThatSaysSo) {
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "max\n");
  put("sys/fs/cgroup/job/step/memory.current", "900\n");
  EXPECT_EQ(memory_left(folder()), 2500U * 1024);
  put("sys/fs/cgroup/job/memory.max", "1000\n");
  put("sys/fs/cgroup/job/memory.current", "900\n");
  put("sys/fs/cgroup/job/memory.stat", "anon 7\ninactive_file 50\n");
  EXPECT_EQ(memory_left(folder()), 150U) << "the job's, without what files take";
  put("sys/fs/cgroup/job/memory.current", "1100\n");
  EXPECT_EQ(memory_left(folder()), 0U);
}

TEST_F(MemoryLeft, IsReadFromVersion1OfControlGroupsAsWell) {
  put("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/a path:with/signs\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
  EXPECT_EQ(memory_left(folder()), 4900U) << "a container's own group is its highest";
  put("sys/fs/cgroup/memory/a path:with/signs/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/a path:with/signs/memory.usage_in_bytes", "100\n");
  EXPECT_EQ(memory_left(folder()), 4900U);
}

}  // namespace
}  // namespace remora::cli
