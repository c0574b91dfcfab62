// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "frontends/formats/file.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/tflite.hpp"
#include "model/placement.hpp"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

using Json = nlohmann::json;
using test::Outcome;
using test::run_words;

class PlaceCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write("b.csv", "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n");
  }
  [[nodiscard]] Outcome place(std::string words) const {
    for (auto at = words.find('@'); at != std::string::npos; at = words.find('@')) words.replace(at, 1, path(""));
    return run_words("place --threads 1 " + words);
  }
  /// The offsets that a file gives to the buffers of b.csv.
  [[nodiscard]] std::vector<Bytes> offsets_in(const std::string& name) const {
    std::vector<Bytes> offsets;
    const std::vector<Buffer> placed = interchange::read_buffers(read(name), name);
    const std::vector<Buffer> asked = interchange::read_buffers(read("b.csv"), "b.csv");
    EXPECT_EQ(placed.size(), asked.size());
    for (std::size_t i = 0; i < placed.size(); ++i) {
      EXPECT_EQ(placed[i].id, asked[i].id);
      offsets.push_back(placed[i].offset.value_or(Bytes(-1)));
    }
    EXPECT_EQ(placement_fault(asked, offsets), "");
    return offsets;
  }
};

TEST_F(PlaceCommand, WritesOffsetsOfTheSmallestArena) {
  const Outcome outcome = place("@b.csv -o @out.csv --json -q");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.empty()) << outcome.err;
  const Json figures = Json::parse(outcome.out);
  EXPECT_EQ(figures["status"], "optimal");
  EXPECT_EQ(figures["arena"], 12);
  EXPECT_EQ(figures["lower_bound"], 12);
  EXPECT_EQ(figures["load"], 12);
  EXPECT_EQ(figures["buffers"], 5);
  EXPECT_EQ(arena_of(interchange::read_buffers(read("b.csv"), ""), offsets_in("out.csv")), Bytes(12));
  EXPECT_EQ(place("@b.csv -q -o -").out, read("out.csv"));
}

TEST_F(PlaceCommand, PlacesInBanks) {
  const std::string banks = R"("banks": [{"name": "tcm", "capacity": 8}, {"name": "sram", "capacity": 64}])";
  const auto buffer = [](const std::string& id, int lower, int cost) {
    return R"({"id": ")" + id + R"(", "lower": )" + std::to_string(lower) + R"(, "upper": )" +
           std::to_string(lower + 3) +
           R"(, "size": 4, "gaps": [], "banks": [{"name": "tcm"}, {"name": "sram", "cost": )" + std::to_string(cost) +
           "}]}";
  };
  const std::string begin = R"({"format": "remora-banks", "version": 1, )" + banks + R"(, "buffers": [)";
  write("banks.json", begin + buffer("a", 0, 5) + "," + buffer("b", 1, 2) + "," + buffer("c", 2, 3) + "]}");
  const Outcome outcome = place("@banks.json -o @placed.json --json -q");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json figures = Json::parse(outcome.out);
  EXPECT_EQ(figures["status"], "optimal");
  EXPECT_EQ(figures["cost"], 2);
  EXPECT_EQ(figures["lower_bound"], 2);
  const Json placed = Json::parse(read("placed.json"));
  EXPECT_EQ(placed["cost"], 2);
  EXPECT_EQ(placed["buffers"][1]["placed"]["bank"], "sram");
  EXPECT_EQ(placed["banks"][0]["arena"], 8);
  // What is written can be read again.
  EXPECT_EQ(place("@placed.json -o @again.json -q").code, 0);
  EXPECT_EQ(read("again.json"), read("placed.json"));
  EXPECT_NE(place("@banks.json -q").out.find("proved least"), std::string::npos);
  EXPECT_EQ(place("@banks.json --capacity 8 -q").code, 64);
  write("full.json", begin + R"({"id": "a", "lower": 0, "upper": 1, "size": 65}]})");
  EXPECT_EQ(place("@full.json -q").code, 20);
  write("wrong.json", begin + R"({"id": "a", "lower": 0, "upper": 1, "size": 1, "banks": [{"name": "dram"}]}]})");
  const Outcome wrong = place("@wrong.json -q");
  EXPECT_EQ(wrong.code, 65);
  EXPECT_NE(wrong.err.find("$.buffers[0].banks[0].name: there is no bank \"dram\""), std::string::npos) << wrong.err;
}

/// Not "is not a table of buffers", as if it were another file.
TEST_F(PlaceCommand, NamesThePlaceWhereADocumentIsBroken) {
  const std::string good = R"({"format": "remora-banks", "version": 1, "banks": [{"name": "tcm", "capacity": 8}],
 "buffers": [{"id": "a", "lower": 0, "upper": 3, "size": 4}]})";
  write("good.json", good);
  ASSERT_EQ(place("@good.json -q").code, 0);
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), instead);
  };
  const std::vector<std::pair<std::string, std::string>> broken{
      {good.substr(0, good.size() - 3), "line 2, column 59: not JSON: the text ends too early"},
      {good.substr(0, 60), "line 1, column 61: not JSON: the text ends too early"},
      {with("8", "NaN"), "line 1, column 80: not JSON"},
      {with("8", "1e400"), "$.banks[0].capacity: the number \"1e400\" is too large"},
      {with("\"a\"", "\"\\ud800\""), "line 2, column 28: not JSON"},
      {with("3", "3,"), "line 2, column 49: not JSON"},
      {with("\"upper\"", "\"lower\""), "$.buffers[0].lower: the key \"lower\" stands twice"},
      {with("\"capacity\"", "\"size\""), "$.banks[0]: the key \"capacity\" is missing"},
      {"{", "line 1, column 2: not JSON"},
      {"\n {\"a\": 1", "line 2, column 9: not JSON"}};
  for (const auto& [text, place_of_fault] : broken) {
    SCOPED_TRACE(text);
    write("broken.json", text);
    const Outcome outcome = place("@broken.json -q");
    EXPECT_EQ(outcome.code, 65);
    EXPECT_TRUE(outcome.err.starts_with("remora: " + path("broken.json") + ": " + place_of_fault)) << outcome.err;
  }
  write("other.json", R"({"format": "remora-graph"})");
  EXPECT_EQ(place("@other.json -q").code, 64);
}

/// What never holds memory may lie anywhere, and ids are labels.
TEST_F(PlaceCommand, TakesBuffersWithoutBytesAndIdsThatAreAlike) {
  write("empty.json",
        R"({"format": "remora-banks", "version": 1, "banks": [{"name": "tcm", "capacity": 8}], "buffers": [
    {"id": "a", "lower": 0, "upper": 3, "size": 0, "offset": 99}, {"id": "a", "lower": 3, "upper": 3, "size": 99},
    {"id": "a", "lower": 0, "upper": 3, "size": 8}]})");
  ASSERT_EQ(place("@empty.json -q -o @placed.json").code, 0);
  const Json placed = Json::parse(read("placed.json"));
  EXPECT_EQ(placed["banks"][0]["arena"], 8);
  EXPECT_EQ(placed["buffers"][0]["placed"]["offset"], 99);
  write("empty.csv", "id,lower,upper,size,offset\na,0,3,0,99\na,3,3,99,\na,0,3,8,\n");
  EXPECT_EQ(place("@empty.csv -q --capacity 8B").code, 0);
}

TEST_F(PlaceCommand, SaysWhatACapacityHolds) {
  EXPECT_EQ(place("@b.csv --capacity 12 -q").code, 0);
  const Outcome none = place("@b.csv --capacity 11B -q -o @none.csv");
  EXPECT_EQ(none.code, 20);
  EXPECT_NE(none.out.find("the bound is above the capacity"), std::string::npos) << none.out;
  EXPECT_FALSE(std::filesystem::exists(path("none.csv")));
  write("far.csv", "id,lower,upper,size,alignment\na,0,1,1,4\nb,0,1,1,4\nc,0,1,2,1\nd,0,1,2,1\n");
  EXPECT_EQ(place("@far.csv --capacity 100%").code, 20);
  EXPECT_EQ(place("@far.csv --heuristics --capacity 7").code, 0);
}

TEST_F(PlaceCommand, TakesMinimallocsWords) {
  const Outcome outcome = place("--capacity=12 --input=@b.csv --output=@out.csv --timeout=10s --validate");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(offsets_in("out.csv").size(), 5U);
  EXPECT_EQ(place("--capacity=12 --input @b.csv --timeout 10m").code, 64);
}

TEST_F(PlaceCommand, PlansTfliteModels) {
  const std::string model = json::read_file(REMORA_SOURCE_DIR "/tests/data/tflite/mlp.tflite");
  write("m.tflite", model);
  const Outcome outcome = place("--tflite @m.tflite -o @p.tflite --json -q");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["arena"], 96);
  const std::string planned = read("p.tflite");
  EXPECT_EQ(tflite::read_plan(planned, "").size(), 19U);
  EXPECT_EQ(place("--tflite @m.tflite -o @p.csv -q").code, 0);
  EXPECT_EQ(interchange::read_buffers(read("p.csv"), "").size(), 9U);

  EXPECT_EQ(place("--tflite @m.tflite --capacity 95B -q").code, 20);
  EXPECT_EQ(place("@m.tflite").code, 64) << "a model, and nobody said so";
  EXPECT_EQ(place("--tflite @m.tflite --graph @m.tflite").code, 64);
  write("cut.tflite", model.substr(0, 1000));
  for (const std::string name : {"cut.tflite", "p.tflite", "b.csv"}) {
    const Outcome refused = place("--tflite @" + name + " -o @none.tflite");
    EXPECT_EQ(refused.code, 65) << name;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(path("none.tflite")));
  }
}

TEST_F(PlaceCommand, AlignsOffsets) {
  EXPECT_EQ(place("@b.csv --alignment 6 -q -o @out.csv").code, 0);
  for (const Bytes offset : offsets_in("out.csv")) EXPECT_EQ(offset.count() % 6, 0);
  EXPECT_EQ(place("@b.csv --alignment 0").code, 64);
  EXPECT_EQ(place("@b.csv --alignment 9999999999").code, 64);
}

TEST_F(PlaceCommand, RefusesWhatIsNoTable) {
  write("bad.csv", "id,lower,upper,size\na,0,1,x\n");
  const Outcome bad = place("@bad.csv");
  EXPECT_EQ(bad.code, 65);
  EXPECT_NE(bad.err.find(R"(bad.csv: line 2: size must be a whole number within 64 bits, not "x")"), std::string::npos)
      << bad.err;
  EXPECT_EQ(place("@missing.csv").code, 65);
  EXPECT_EQ(place("").code, 64);
  EXPECT_EQ(place("@b.csv --json -o -").code, 64);
  write("clash.csv", "id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,4,2\n");
  const Outcome clash = place("@clash.csv");
  EXPECT_EQ(clash.code, 20);
  EXPECT_NE(clash.out.find("fixed offsets share bytes"), std::string::npos) << clash.out;
}

class Addresses : public PlaceCommand {
 protected:
  void SetUp() override {
    PlaceCommand::SetUp();
    ASSERT_EQ(run_words("generate layered --ops 30 --seed 2 -o " + path("g.json")).code, 0);
  }
  [[nodiscard]] Outcome solve(const std::string& words) const {
    return run_words("solve " + path("g.json") + " --threads 1 --work-limit 20000 -q -o " + path("s.json") + " " +
                     words);
  }
  [[nodiscard]] Outcome verify(const std::string& name) const {
    return run_words("verify " + path("g.json") + " " + path(name));
  }
};

TEST_F(Addresses, APercentageRefersToTheArenaWhereverItIsShown) {
  for (const std::string budget : {"95.0", "1.0"}) {
    const std::string words = " --threads 1 --work-limit 2000 --addresses -o " + path("t.json") + " -b " + budget + "%";
    const Outcome outcome = run_words("solve " + path("g.json") + words);
    EXPECT_NE(outcome.err.find(", " + budget + " % of the arena"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("% of the peak"), std::string::npos) << outcome.err;
  }
}

TEST_F(Addresses, AreSolvedForAndVerified) {
  const Outcome outcome = solve("-b 95% --addresses");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json schedule = Json::parse(read("s.json"));
  EXPECT_EQ(schedule["version"], 2);
  EXPECT_EQ(schedule["arena"]["alignment"], 64);
  EXPECT_LE(schedule["arena"]["size"], schedule["budget"]);
  EXPECT_EQ(verify("s.json").code, 0) << verify("s.json").out;
  // Two tensors of one step at one place.
  Json wrong = schedule;
  for (Json& step : wrong["steps"]) {
    for (auto& offset : step["offsets"]) offset = 0;
  }
  write("wrong.json", wrong.dump());
  EXPECT_EQ(verify("wrong.json").code, 65);
  EXPECT_NE(verify("wrong.json").out.find("shares bytes with"), std::string::npos) << verify("wrong.json").out;
  EXPECT_EQ(solve("-b 85% --alignment 64").code, 64);
  EXPECT_EQ(solve("-b 85% --addresses --alignment 0").code, 64);
}

TEST_F(Addresses, AreGivenToAScheduleThatIsThere) {
  ASSERT_EQ(solve("-b 90%").code, 0);
  EXPECT_EQ(Json::parse(read("s.json"))["version"], 1);
  const Outcome outcome = place("@s.json --graph @g.json --alignment 1 -q -o @placed.json");
  if (outcome.code == 21) {
    EXPECT_NE(outcome.err.find("above the schedule's budget"), std::string::npos) << outcome.err;
  } else {
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(Json::parse(read("placed.json"))["arena"]["alignment"], 1);
    EXPECT_EQ(verify("placed.json").code, 0) << verify("placed.json").out;
  }
  EXPECT_EQ(place("@s.json --graph @g.json -q -o @table.csv").code, 0);
  const std::vector<Buffer> table = interchange::read_buffers(read("table.csv"), "");
  EXPECT_EQ(table.front().alignment, Bytes(64));
  const Outcome alone = place("@s.json");
  EXPECT_EQ(alone.code, 64);
  EXPECT_NE(alone.err.find("--graph FILE"), std::string::npos) << alone.err;
}

}  // namespace
}  // namespace remora::cli
