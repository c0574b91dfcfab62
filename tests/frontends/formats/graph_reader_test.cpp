// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "tests/frontends/formats/samples.hpp"

namespace remora::json {
namespace {

// A file's name is no text: read_graph("graph.json") does not compile.
static_assert(!std::is_invocable_v<decltype(&read_graph), const char*>);
static_assert(!std::is_invocable_v<decltype(&read_graph), std::string>);
constexpr auto kReadSchedule = [](auto text, const auto& graph) -> decltype(read_schedule(text, graph)) {
  return read_schedule(text, graph);
};
static_assert(std::is_invocable_v<decltype(kReadSchedule), Text, const Graph&>);
static_assert(!std::is_invocable_v<decltype(kReadSchedule), const char*, const Graph&>);
static_assert(!std::is_invocable_v<decltype(&read_curve), const char*>);

/// One change to kEveryKey each.
const std::vector<Malformed> kMalformed = {
    // The head.
    {R"("remora-graph")", R"("remora-schedule")", "$.format", R"("remora-schedule")"},
    {R"("format": "remora-graph",)", "", "$", R"("format" is missing)"},
    {R"("remora-graph")", "3", "$.format", "must be a string, not 3"},
    {R"("version": 1)", R"("version": 3)", "$.version", "version 3 is not supported, only versions 1 to 2"},
    {R"("version": 1)", R"("version": 5)", "$.version", "version 5 is not supported, only versions 1 to 4"},
    {R"("version": 1)", R"("version": 0)", "$.version", "version 0"},
    {R"("version": 1)", R"("version": "1")", "$.version", "must be an integer"},
    {R"("version": 1,)", "", "$", R"("version" is missing)"},
    {R"("name": "every key",)", "", "$", R"("name" is missing)"},
    {R"("name": "every key")", R"("name": null)", "$.name", "must be a string, not null"},
    {R"("meta": {)", R"("meta": 4, "more": {)", "$.meta", "must be an object, not 4"},
    {R"("tensors": [)", R"("tensor": [)", "$", R"("tensors" is missing)"},
    {R"("ops": [)", R"("op": [)", "$", R"("ops" is missing)"},
    {R"("ops": [)", R"("ops": {}, "more": [)", "$.ops", "must be an array, not an object"},
    {R"("tensors": [)", R"("tensors": "x", "more": [)", "$.tensors", "must be an array"},
    // Numbers.
    {R"("fixed_memory": 7)", R"("fixed_memory": -7)", "$.fixed_memory", "must not be negative, but is -7"},
    {R"("fixed_memory": 7)", R"("fixed_memory": 7.5)", "$.fixed_memory", "must be an integer"},
    {R"("fixed_memory": 7)", R"("fixed_memory": 7.0)", "$.fixed_memory", "must be an integer"},
    {R"("fixed_memory": 7)", R"("fixed_memory": true)", "$.fixed_memory", "must be an integer, not true"},
    {R"("size": 5)", R"("size": 9223372036854775808)", "$.tensors[0].size", "9223372036854775808 is too large"},
    {R"("size": 5)", R"("size": 18446744073709551616)", "$.tensors[0].size", "is too large"},
    {R"("size": 5)", R"("size": 1e300)", "$.tensors[0].size", "is too large"},
    {R"("size": 5)", R"("size": 1e400)", "$.tensors[0].size", R"("1e400" is too large)"},
    {R"("size": 5)", R"("size": -1e400)", "$.tensors[0].size", R"("-1e400" is too large)"},
    {R"("size": 5)", R"("size": -18446744073709551616)", "$.tensors[0].size", "must not be negative"},
    {R"("size": 5)", R"("size": -0.5)", "$.tensors[0].size", "must not be negative"},
    {R"("size": 5)", R"("size": "5")", "$.tensors[0].size", R"(must be an integer, not "5")"},
    {R"("size": 5)", R"("size": [5])", "$.tensors[0].size", "must be an integer, not an array"},
    {R"(, "size": 5)", "", "$.tensors[0]", R"("size" is missing)"},
    {R"("duration": 11)", R"("duration": -1)", "$.ops[0].duration", "must not be negative"},
    {R"("duration": 11, )", "", "$.ops[0]", R"("duration" is missing)"},
    {R"("workspace": 12)", R"("workspace": null)", "$.ops[0].workspace", "must be an integer, not null"},
    {R"("max_computes": 3)", R"("max_computes": 0)", "$.ops[0].max_computes", "must be at least 1, but is 0"},
    {R"("max_computes": 3)", R"("max_computes": -3)", "$.ops[0].max_computes", "must be at least 1, but is -3"},
    {R"("max_computes": 3)", R"("max_computes": 2147483648)", "$.ops[0].max_computes", "is too large"},
    // Other types.
    {R"("keep": true)", R"("keep": 1)", "$.tensors[2].keep", "must be true or false, not 1"},
    {R"({"name": "x", "size": 5})", "5", "$.tensors[0]", "must be an object, not 5"},
    {R"("type": "Relu")", R"("type": ["Relu"])", "$.ops[0].type", "must be a string, not an array"},
    {R"("inputs": ["x"])", R"("inputs": "x")", "$.ops[0].inputs", R"(must be an array, not "x")"},
    {R"("inputs": ["x"])", R"("inputs": [0])", "$.ops[0].inputs[0]", "must be a string, not 0"},
    {R"("inputs": ["x"], )", "", "$.ops[0]", R"("inputs" is missing)"},
    {R"("outputs": ["h"],)", "", "$.ops[0]", R"("outputs" is missing)"},
    {R"("after": ["f"])", R"("after": "f")", "$.ops[1].after", "must be an array"},
    {R"("allowed")", R"("always")", "$.ops[0].recompute", R"(not "always")"},
    {R"("allowed")", "false", "$.ops[0].recompute", "must be a string"},
    {R"("forward")", R"("sideways")", "$.ops[0].phase", R"(not "sideways")"},
    {R"("forward")", R"("")", "$.ops[0].phase", R"(not "")"},
    // Names.
    {R"("name": "x")", R"("name": "")", "$.tensors[0].name", "must not be empty"},
    {R"("name": "x", )", "", "$.tensors[0]", R"("name" is missing)"},
    {R"("name": "gh")", R"("name": "x")", "$.tensors[2].name", R"("x" is taken by $.tensors[0])"},
    {R"("name": "g")", R"("name": "f")", "$.ops[1].name", R"("f" is taken by $.ops[0])"},
    {R"("inputs": ["h", "h"])", R"("inputs": ["h", "y"])", "$.ops[1].inputs[1]", R"(there is no tensor "y")"},
    {R"("outputs": ["gh"])", R"("outputs": ["y"])", "$.ops[1].outputs[0]", R"(there is no tensor "y")"},
    {R"("backward_of": "f")", R"("backward_of": "y")", "$.ops[1].backward_of", R"(there is no op "y")"},
    {R"("backward_of": "f")", R"("backward_of": "g")", "$.ops[1].backward_of", R"("g")"},
    {R"("after": ["f"])", R"("after": ["f", "y"])", "$.ops[1].after[1]", R"(there is no op "y")"},
    // Structure.
    {R"("outputs": ["gh"])", R"("outputs": [])", "$.ops[1].outputs", R"("g" has no outputs)"},
    {R"("outputs": ["gh"])", R"("outputs": ["gh", "gh"])", "$.ops[1].outputs[1]", R"("g" lists the tensor "gh" twice)"},
    {R"("outputs": ["gh"])", R"("outputs": ["gh", "h"])", "$.ops[1].outputs[1]", R"("f" (op 0) and "g")"},
    {R"("inputs": ["x"])", R"("inputs": ["h"])", "$.ops[0].inputs[0]", R"(cycle: "f" -> "f")"},
    {R"("inputs": ["x"])", R"("inputs": ["x", "gh"])", "$.ops[0].inputs[1]", R"(cycle: "f" -> "g" -> "f")"},
    {R"("after": ["f"])", R"("after": ["g"])", "$.ops[1].after[0]", R"(cycle: "g" -> "g")"},
    {R"("fixed_memory": 7)", R"("fixed_memory": 9223372036854775807)", "$.tensors[0].size", "exceed 64 bits"},
    {R"("workspace": 12)", R"("workspace": 9223372036854775800)", "$.ops[0].workspace", "exceed 64 bits"},
    {R"("duration": 13)", R"("duration": 144115188075855872)", "$.ops[1].duration", "exceed 64 bits"},
    // The same key twice.
    {R"("fixed_memory": 7)", R"("fixed_memory": 7, "name": "n")", "$.name", R"("name" stands twice)"},
    {R"("size": 5)", R"("size": 5, "size": 5)", "$.tensors[0].size", R"("size" stands twice)"},
    {R"("k": [1)", R"("k": 1, "k": [1)", "$.ops[1].z_note.k", R"("k" stands twice)"},
    {R"({"name": "x", "size": 5})", R"({"name": "x", "size": 5}, {"a": [{}, [], {"k": 1}, {"q": 0, "q": 0}]})",
     "$.tensors[1].a[3].q", R"("q" stands twice)"},
    {R"("k": [1)", R"("odd key": 1, "odd key": [1)", R"($.ops[1].z_note["odd key"])", "stands twice"},
    {R"("shape": [2, 3])", R"("shape": [2, {"q": 0, "q": 0}])", "$.tensors[1].shape[1].q", "stands twice"},
    // Not JSON.
    {R"("size": 5})", R"("size": NaN})", "line 4, column 27", R"(invalid literal near)"},
    {R"("size": 5})", R"("size": 05})", "line 4, column 28", "not JSON: unexpected number literal"},
    {R"("size": 5})", R"("size": 5,})", "line 4, column 29", "not JSON"},
    {R"("size": 5})", R"("size": 5)", "line 5, column 5", "not JSON"},
    {R"("name": "x")", "\"name\": \"\xff\"", "line 4, column 15", "ill-formed UTF-8"},
    {R"("name": "x")", "\"name\": \"a\nb\"", "line 4, column 16", "control character"},
    {R"("name": "x")", R"("name": "\ud800")", "line 4, column 21", "surrogate"},
    {R"("later": {"than": "version 1"})", R"("later": 1} {)", "line 15, column 15", "not JSON"},
};

TEST(ReadGraph, NamesThePlaceOfEveryFault) {
  for (const Malformed& malformed : kMalformed) {
    SCOPED_TRACE(std::string(malformed.from) + " -> " + std::string(malformed.to));
    const std::string text = replaced(kEveryKey, malformed.from, malformed.to);
    ASSERT_FALSE(text.empty());
    const Fault fault = fault_of([&] { static_cast<void>(read_graph(Text(text))); });
    EXPECT_EQ(fault.place, malformed.place);
    EXPECT_NE(fault.what.find(malformed.fragment), std::string::npos) << fault.what;
    EXPECT_EQ(fault.what.find('\n'), std::string::npos) << "one line: " << fault.what;
  }
}

/// kEveryKey as version 2, with its keys.
std::string second_version() {
  std::string text = replaced(kEveryKey, R"("version": 1)", R"("version": 2, "recompute_allocates": "all")");
  return replaced(text, R"("inputs": ["x"])", R"("in_place": [["h", "x"]], "inputs": ["x"])");
}

TEST(ReadGraph, ReadsVersionTwo) {
  const Graph graph = read_graph(Text(second_version()));
  EXPECT_EQ(graph.recompute_allocates, Allocation::all);
  EXPECT_EQ(graph.ops[0].in_place, (std::vector<InPlace>{{TensorId(1), TensorId(0)}}));
  EXPECT_TRUE(graph.ops[1].in_place.empty());
  // To a file of version 1 they are unknown keys.
  const std::string first = replaced(second_version(), R"("version": 2)", R"("version": 1)");
  const Graph other = read_graph(Text(first));
  EXPECT_EQ(other.recompute_allocates, Allocation::missing);
  EXPECT_TRUE(other.ops[0].in_place.empty());
  EXPECT_EQ(other.ops[0].extra, R"({"in_place":[["h","x"]]})");
  // And without them the second version is the first one.
  EXPECT_EQ(read_graph(Text(replaced(kEveryKey, R"("version": 1)", R"("version": 2)"))), read_graph(Text(kEveryKey)));
}

TEST(ReadGraph, NamesThePlaceOfEveryFaultOfVersionTwo) {
  const std::vector<Malformed> faults = {
      {R"("all")", R"("some")", "$.recompute_allocates", "not \"some\""},
      {R"("all")", "true", "$.recompute_allocates", "must be a string"},
      {R"([["h", "x"]])", R"("h")", "$.ops[0].in_place", "must be an array"},
      {R"([["h", "x"]])", R"(["h", "x"])", "$.ops[0].in_place[0]", "must be an array"},
      {R"([["h", "x"]])", R"([["h"]])", "$.ops[0].in_place[0]", "must be [output, input]"},
      {R"([["h", "x"]])", R"([["h", "y"]])", "$.ops[0].in_place[0][1]", R"(there is no tensor "y")"},
      {R"([["h", "x"]])", R"([["x", "h"]])", "$.ops[0].in_place[0][0]", R"("x" is not an output of the op "f")"},
      {R"([["h", "x"]])", R"([["h", "gh"]])", "$.ops[0].in_place[0][1]", R"("gh" is not an input of the op "f")"},
      {R"([["h", "x"]])", R"([["h", "x"], ["h", "x"]])", "$.ops[0].in_place[1][0]", R"(the output "h" is in two)"},
      {R"("recompute_allocates")", R"("devices": [], "later2")", "$.devices", "the graph is for several devices"},
      {R"("in_place")", R"("on": {}, "in_place")", "$.ops[0].on", R"(in a graph without "devices")"},
      {R"("size": 5)", R"("size": 5, "home": ["cpu"])", "$.tensors[0].home", R"(in a graph without "devices")"},
  };
  for (const Malformed& fault : faults) {
    SCOPED_TRACE(std::string(fault.from) + " -> " + std::string(fault.to));
    const std::string text = replaced(second_version(), fault.from, fault.to);
    ASSERT_FALSE(text.empty());
    const Fault found = fault_of([&] { static_cast<void>(read_graph(Text(text))); });
    EXPECT_EQ(found.place, fault.place);
    EXPECT_NE(found.what.find(fault.fragment), std::string::npos) << found.what;
  }
}

/// kEveryKey as version 4: h has 3 rows of 2 bytes, and x is read with a window.
std::string fourth_version() {
  const std::string text = replaced(kEveryKey, R"("version": 1)", R"("version": 4)");
  return replaced(
      text, R"("inputs": ["x"])",
      R"("axes": [{"extent": 3, "cut": [{"tensor": "h"}, )"
      R"({"tensor": "x", "rows": 5, "step": 2, "offset": -1, "length": 3}]}, )"
      R"({"extent": 2, "cut": [{"tensor": "x", "rows": 5}], "sum": ["h"], "workspace": 6}], "inputs": ["x"])");
}

TEST(ReadGraph, ReadsAxesOfVersionFour) {
  const Graph graph = read_graph(Text(fourth_version()));
  const TensorId x(0);
  const TensorId h(1);
  const std::vector<Axis> axes = {{3,
                                   {{.tensor = h, .rows = 3, .stride = Bytes(2)},
                                    {.tensor = x, .rows = 5, .stride = Bytes(1), .step = 2, .offset = -1, .length = 3}},
                                   {}},
                                  {2, {{.tensor = x, .rows = 5, .stride = Bytes(1)}}, {h}, Bytes(6)}};
  EXPECT_EQ(graph.ops[0].axes, axes);
  EXPECT_TRUE(graph.ops[1].axes.empty());
  // To a file of a lower version they are an unknown key.
  for (const char* version : {R"("version": 1)", R"("version": 2)"}) {
    const Graph other = read_graph(Text(replaced(fourth_version(), R"("version": 4)", version)));
    EXPECT_TRUE(other.ops[0].axes.empty());
    EXPECT_EQ(other.ops[0].extra.substr(0, 9), R"({"axes":[)");
  }
  // And without them the fourth version is the first one.
  EXPECT_EQ(read_graph(Text(replaced(kEveryKey, R"("version": 1)", R"("version": 4)"))), read_graph(Text(kEveryKey)));
}

/// A block whose forward half F may save less for its backward half B.
std::string with_modes() {
  return R"({"format": "remora-graph", "version": 4, "name": "block",
    "tensors": [{"name": "x", "size": 1}, {"name": "y", "size": 1}, {"name": "saved", "size": 6}, {"name": "dx", "size": 1}],
    "ops": [{"name": "X", "duration": 1, "inputs": [], "outputs": ["x"]},
      {"name": "F", "duration": 4, "inputs": ["x"], "outputs": ["y", "saved"],
       "modes": [{"duration": 3, "workspace": 2, "output_sizes": [1, 0], "computes": 2}, {"duration": 5}], "most_computes": 3},
      {"name": "B", "duration": 5, "inputs": ["x", "y", "saved"], "outputs": ["dx"], "unread": ["y"],
       "inner": [{"workspace": -1}, {"workspace": 2, "freed": ["saved", ["x", 1]]}],
       "modes": [{"duration": 9, "unread": ["saved"]}, null], "follows": "F"}]})";
}

TEST(ReadGraph, ReadsModesOfVersionFour) {
  const Graph graph = read_graph(Text(with_modes()));
  const TensorId x(0);
  const TensorId y(1);
  const TensorId saved(2);
  const auto sizes = [](std::int64_t first, std::int64_t second) { return std::vector{Bytes(first), Bytes(second)}; };
  EXPECT_FALSE(graph.ops[0].modes);
  const OpModes forward{.further = {Mode{Duration(3), Bytes(2), sizes(1, 0), {}, 2},
                                    Mode{.duration = Duration(5), .output_sizes = sizes(1, 6)}},
                        .most_computes = 3};
  EXPECT_EQ(graph.ops[1].modes, forward);
  const OpModes backward{
      .further = {Mode{.duration = Duration(9), .output_sizes = {Bytes(1)}, .unread = {saved}}, std::nullopt},
      .follows = OpId(1),
      .unread = {y},
      .inner = {{.workspace = Bytes(-1)}, {.workspace = Bytes(2), .freed = {saved, {x, Bytes(1)}}}}};
  EXPECT_EQ(graph.ops[2].modes, backward);
  // To a file of a lower version they are unknown keys.
  const Graph other = read_graph(Text(replaced(with_modes(), R"("version": 4)", R"("version": 2)")));
  EXPECT_FALSE(has_modes(other));
  EXPECT_EQ(other.ops[1].extra.substr(0, 9), R"({"modes":)");
}

TEST(ReadGraph, NamesThePlaceOfEveryFaultOfModes) {
  const std::vector<Malformed> faults = {
      {R"([{"duration": 3)", R"(3, "a": [{"duration": 3)", "$.ops[1].modes", "must be an array"},
      {R"([{"duration": 3)", R"([7, {"duration": 3)", "$.ops[1].modes[0]", "must be an object"},
      {R"("duration": 3, )", "", "$.ops[1].modes[0]", R"("duration" is missing)"},
      {R"([1, 0])", R"([1])", "$.ops[1].modes[0].output_sizes", "one size for each output"},
      {R"([1, 0])", R"([1, -1])", "$.ops[1].modes[0].output_sizes[1]", "-1"},
      {R"("computes": 2)", R"("computes": 0)", "$.ops[1].modes[0].computes", "at least 1"},
      {R"("most_computes": 3)", R"("most_computes": 0)", "$.ops[1].most_computes", "at least 1"},
      {R"(, {"duration": 5})", "", "$.ops[2].follows", "another number of modes"},
      {R"("unread": ["saved"])", R"("unread": ["y", "saved"])", "$.ops[2].follows", "nothing that mode 1 reads"},
      {R"("unread": ["saved"])", R"("unread": ["dx"])", "$.ops[2].modes[0].unread", "inputs of the op"},
      {R"("unread": ["saved"])", R"("unread": ["no"])", "$.ops[2].modes[0].unread[0]", R"(no tensor "no")"},
      {R"("follows": "F")", R"("follows": "G")", "$.ops[2].follows", R"(no op "G")"},
      {R"({"workspace": -1})", "3", "$.ops[2].inner[0]", "must be an object"},
      {R"({"workspace": -1})", "{}", "$.ops[2].inner[0]", R"("workspace" is missing)"},
      {R"(["x", 1])", R"(["x"])", "$.ops[2].inner[1].freed[1]", "[tensor, bytes]"},
      {R"(["x", 1])", R"(["saved", 1])", "$.ops[2].inner", "freed once"},
      {R"(["x", 1])", R"("y")", "$.ops[2].inner", "read by the mode"},
  };
  for (const Malformed& fault : faults) {
    SCOPED_TRACE(std::string(fault.from) + " -> " + std::string(fault.to));
    const std::string text = replaced(with_modes(), fault.from, fault.to);
    ASSERT_FALSE(text.empty());
    const Fault found = fault_of([&] { static_cast<void>(read_graph(Text(text))); });
    EXPECT_EQ(found.place, fault.place);
    EXPECT_NE(found.what.find(fault.fragment), std::string::npos) << found.what;
  }
}

TEST(ReadGraph, NamesThePlaceOfEveryFaultOfAxes) {
  const std::vector<Malformed> faults = {
      {R"([{"extent": 3)", R"(3, "a": [{"extent": 3)", "$.ops[0].axes", "must be an array"},
      {R"([{"extent": 3)", R"([3, {"extent": 3)", "$.ops[0].axes[0]", "must be an object"},
      {R"("extent": 3, )", "", "$.ops[0].axes[0]", R"("extent" is missing)"},
      {R"("extent": 3)", R"("extent": 0)", "$.ops[0].axes[0].extent", "at least 1"},
      {R"("extent": 3)", R"("extent": 2147483648)", "$.ops[0].axes[0].extent", "too large"},
      {R"("extent": 3)", R"("extent": 4)", "$.ops[0].axes[0].cut[0]", "of 6 bytes does not consist of blocks of 4"},
      {R"({"tensor": "h"})", R"("h")", "$.ops[0].axes[0].cut[0]", "must be an object"},
      {R"({"tensor": "h"})", R"({"stride": 2})", "$.ops[0].axes[0].cut[0]", R"("tensor" is missing)"},
      {R"({"tensor": "h"})", R"({"tensor": "y"})", "$.ops[0].axes[0].cut[0].tensor", R"(no tensor "y")"},
      {R"({"tensor": "h"})", R"({"tensor": "gh", "rows": 4})", "$.ops[0].axes[0].cut[0].tensor", R"(no tensor of the)"},
      {R"({"tensor": "h"})", R"({"tensor": "x", "rows": 5})", "$.ops[0].axes[0].cut[1].tensor", "cut twice"},
      {R"({"tensor": "h"}, )", "", "$.ops[0].axes[0]", R"(the output "h" of the op "f" is neither cut nor summed)"},
      {R"({"tensor": "h"})", R"({"tensor": "h", "stride": 4})", "$.ops[0].axes[0].cut[0]", "3 rows of 4 bytes"},
      {R"({"tensor": "h"})", R"({"tensor": "h", "rows": 2})", "$.ops[0].axes[0].cut[0].rows", "3 iterations write 1"},
      {R"({"tensor": "h"})", R"({"tensor": "h", "offset": 1})", "$.ops[0].axes[0].cut[0]", "cannot have a window"},
      {R"({"tensor": "h"})", R"({"tensor": "h", "length": 2})", "$.ops[0].axes[0].cut[0]", "cannot have a window"},
      {R"("step": 2)", R"("step": 0)", "$.ops[0].axes[0].cut[1].step", "at least 1"},
      {R"("offset": -1)", R"("offset": -2147483648)", "$.ops[0].axes[0].cut[1].offset", "at least -2147483647"},
      {R"("length": 3)", R"("length": 0)", "$.ops[0].axes[0].cut[1].length", "at least 1"},
      {R"("workspace": 6)", R"("workspace": -1)", "$.ops[0].axes[1].workspace", "-1"},
      {R"("workspace": 6)", R"("workspace": 7)", "$.ops[0].axes[1].workspace", "2 iterations of 7 bytes do not fit"},
      {R"("sum": ["h"])", R"("sum": "h")", "$.ops[0].axes[1].sum", "must be an array"},
      {R"("sum": ["h"])", R"("sum": ["h", "h"])", "$.ops[0].axes[1].sum[1]", "summed twice"},
      {R"("sum": ["h"])", R"("sum": ["h", "x"])", "$.ops[0].axes[1].sum[1]", R"("x" is no output of the op "f")"},
      {R"(5}], "sum")", R"(5}, {"tensor": "h", "rows": 2}], "sum")", "$.ops[0].axes[1].sum[0]", "is cut, too"},
  };
  for (const Malformed& fault : faults) {
    SCOPED_TRACE(std::string(fault.from) + " -> " + std::string(fault.to));
    const std::string text = replaced(fourth_version(), fault.from, fault.to);
    ASSERT_FALSE(text.empty());
    const Fault found = fault_of([&] { static_cast<void>(read_graph(Text(text))); });
    EXPECT_EQ(found.place, fault.place);
    EXPECT_NE(found.what.find(fault.fragment), std::string::npos) << found.what;
  }
}

TEST(ReadGraph, RefusesWhatIsNoObject) {
  for (const char* const text : {"", " ", "null", "[]", "3", "\"remora-graph\"", "\xff\xfe{", "{", "nul", "{}"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(static_cast<void>(read_graph(Text(text))), InputError);
  }
  EXPECT_EQ(fault_of([] { static_cast<void>(read_graph(Text("[]"))); }).what, "$: must be an object, not an array");
  EXPECT_EQ(fault_of([] { static_cast<void>(read_graph(Text(""))); }).what, "the text is empty, not JSON");
  EXPECT_EQ(fault_of([] { static_cast<void>(read_graph(Text(std::string(3, '\0')))); }).place, "line 1, column 1");
}

TEST(ReadGraph, ReadsEveryKey) {
  const Graph graph = read_graph(Text(kEveryKey));
  EXPECT_EQ(graph.name, "every key");
  EXPECT_EQ(graph.fixed_memory, Bytes(7));
  EXPECT_EQ(graph.meta, R"({"source":"by hand","duration_unit":"ns"})");
  EXPECT_EQ(graph.extra, R"({"later":{"than":"version 1"}})");
  ASSERT_EQ(graph.tensors.size(), 3U);
  EXPECT_EQ(graph.tensors[0], (Tensor{.name = "x", .size = Bytes(5)}));
  EXPECT_EQ(graph.tensors[1], (Tensor{.name = "h", .size = Bytes(6), .extra = R"({"shape":[2,3]})"}));
  EXPECT_EQ(graph.tensors[2], (Tensor{.name = "gh", .size = Bytes(8), .keep = true}));
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.ops[0], (Op{.name = "f",
                              .type = "Relu",
                              .duration = Duration(11),
                              .workspace = Bytes(12),
                              .inputs = {TensorId(0)},
                              .outputs = {TensorId(1)},
                              .max_computes = 3,
                              .phase = Phase::forward}));
  EXPECT_EQ(graph.ops[1], (Op{.name = "g",
                              .duration = Duration(13),
                              .inputs = {TensorId(1), TensorId(1)},
                              .outputs = {TensorId(2)},
                              .recompute = false,
                              .phase = Phase::backward,
                              .backward_of = OpId(0),
                              .after = {OpId(0)},
                              .extra = R"({"z_note":{"k":[1,2.5,null]},"a_note":"é"})"}));
}

TEST(ReadGraph, ReadsFigure1) {
  const Graph graph = read_graph(Text(kFigure1));
  ASSERT_EQ(graph.ops.size(), 5U);
  EXPECT_EQ(graph.ops[4].inputs, (std::vector<TensorId>{TensorId(0), TensorId(3)}));
  EXPECT_TRUE(graph.tensors[4].keep);
}

TEST(ReadGraph, AcceptsAByteOrderMarkAndAnEmptyGraph) {
  EXPECT_EQ(read_graph(Text("\xef\xbb\xbf" + std::string(kFigure1))), read_graph(Text(kFigure1)));
  const Graph empty = read_graph(Text(R"({"format":"remora-graph","version":1,"name":"","tensors":[],"ops":[]})"));
  EXPECT_TRUE(empty.ops.empty());
}

TEST(ReadGraph, AcceptsTheLargestSums) {
  const std::string text = replaced(kEveryKey, R"("fixed_memory": 7)", R"("fixed_memory": 9223372036854775776)");
  EXPECT_EQ(read_graph(Text(text)).fixed_memory, Bytes(9223372036854775807 - 5 - 6 - 8 - 12));
  EXPECT_THROW(static_cast<void>(read_graph(Text(replaced(text, "5776", "5777")))), InputError);
}

TEST(ReadGraph, TellsAWrongOrderFromACycle) {
  constexpr std::string_view kSwapped = R"({"format": "remora-graph", "version": 1, "name": "swapped",
    "tensors": [{"name": "a", "size": 1}, {"name": "b", "size": 1}],
    "ops": [{"name": "B", "duration": 1, "inputs": ["a"], "outputs": ["b"]},
            {"name": "A", "duration": 1, "inputs": [], "outputs": ["a"]}]})";
  const Fault order = fault_of([&] { static_cast<void>(read_graph(Text(kSwapped))); });
  EXPECT_EQ(order.what, R"($.ops[0].inputs[0]: the op "B" is listed before "A" (op 1), the producer of its input "a")");
  const std::string cyclic = replaced(kSwapped, R"("inputs": [])", R"("inputs": ["b"])");
  const Fault cycle = fault_of([&] { static_cast<void>(read_graph(Text(cyclic))); });
  EXPECT_EQ(cycle.what, R"($.ops[0].inputs[0]: the ops form a cycle: "B" -> "A" -> "B")");
}

TEST(ReadGraph, ReadsThePublishedInstances) {
  const std::filesystem::path directory = std::filesystem::path(REMORA_SHARED_DIR) / "instances";
  if (!std::filesystem::is_directory(directory)) GTEST_SKIP() << directory << " is absent";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    const Graph graph = read_graph(Text(read_file(entry.path().string())));
    EXPECT_FALSE(graph.ops.empty());
    const std::string text = written(graph);
    EXPECT_EQ(read_graph(Text(text)), graph);
    EXPECT_EQ(written(read_graph(Text(text))), text);
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace remora::json
