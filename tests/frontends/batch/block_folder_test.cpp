// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/batch/store.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::batch {
namespace {

namespace fs = std::filesystem;

class BlockFolderTest : public remora::test::TemporaryFolder {
 protected:
  void warn(const std::string& what) { warnings_.push_back(what); }
  BlockFolder open(const std::string& name) {
    return {path(name), [this](const std::string& what) { warn(what); }};
  }
  std::vector<std::string> warnings_;
};

TEST_F(BlockFolderTest, FindsWhatAnotherOneKept) {
  const std::string key("key\0 with bytes\n", 16);
  const std::string value("value\n\0", 7);
  BlockFolder first = open("deep/blocks");
  EXPECT_EQ(first.find(key), std::nullopt);
  first.keep(key, value);
  first.keep("empty", "");
  BlockFolder second = open("deep/blocks");
  EXPECT_EQ(second.find(key), value);
  EXPECT_EQ(second.find("empty"), "");
  EXPECT_EQ(second.find("other"), std::nullopt);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(BlockFolderTest, DoesNotBelieveADamagedEntryAndReplacesIt) {
  BlockFolder folder = open("blocks");
  folder.keep("key", "value");
  const std::string file = "blocks/" + text::sha256_hex("key");
  const std::string content = read(file);
  for (const std::string& damaged : {std::string(), content.substr(0, 10), content.substr(0, 64),
                                     content.substr(0, content.size() - 1), content + "x"}) {
    write(file, damaged);
    EXPECT_EQ(folder.find("key"), std::nullopt) << damaged;
  }
  folder.keep("key", "value");
  EXPECT_EQ(folder.find("key"), "value");
}

TEST_F(BlockFolderTest, WarnsOnceWhereItCannotKeep) {
  BlockFolder folder = open("blocks");
  fs::remove_all(path("blocks"));
  folder.keep("key", "value");
  folder.keep("other", "value");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_.front().find("blocks"), std::string::npos);
  EXPECT_EQ(folder.find("key"), std::nullopt);
}

TEST_F(BlockFolderTest, SaysWhyItCannotBeMade) {
  write("file", "");
  EXPECT_THROW(open("file/blocks"), InputError);
}

}  // namespace
}  // namespace remora::batch
