// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/suite.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "frontends/bench/words.hpp"
#include "frontends/formats/document.hpp"
#include "model/error.hpp"

namespace remora::bench {
namespace {

namespace fs = std::filesystem;
using json::Document;
using json::Node;

void append_word(std::string& line, const std::string& word) {
  line += (line.empty() ? "" : " ") + word;
}

class SuiteReader {
 public:
  SuiteReader(const Node& root, std::string folder, const std::vector<std::string>& parameters)
      : root_(root), folder_(std::move(folder)), parameters_(parameters) {}

  Suite read() {
    json::expect_format(root_, "remora-suite");
    refuse_unknown(
        root_, {"format", "version", "name", "time_limit", "threads", "seeds", "budgets", "instances", "contenders"});
    Suite suite;
    suite.name = string_at(root_, "name");
    if (root_.has("time_limit")) suite.time_limit = positive(root_.at("time_limit"));
    if (root_.has("threads")) suite.threads = static_cast<int>(root_.at("threads").integer(1, 1024));
    suite.seeds = root_.has("seeds") ? seeds(root_.at("seeds")) : std::vector<std::int64_t>{1};
    suite.budgets = read_words(root_, "budgets");
    const Node instances = root_.at("instances");
    instances.expect_array();
    for (std::size_t i = 0; i < instances.size(); ++i) add_instance(instances.element(i), suite.instances);
    const Node contenders = root_.at("contenders");
    contenders.expect_array();
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      suite.contenders.push_back(contender(contenders.element(i)));
      if (!contender_names_.insert(suite.contenders.back().name).second) {
        contenders.element(i).fail("'" + suite.contenders.back().name + "' is there already");
      }
    }
    check(suite);
    return suite;
  }

 private:
  /// What would be an empty success, or left out in silence.
  void check(const Suite& suite) const {
    for (const SuiteInstance& instance : suite.instances) {
      if (suite.budgets.empty() && instance.budgets.empty()) {
        root_.fail("there are no budgets for '" + instance.name + "'");
      }
    }
    if (suite.contenders.empty()) root_.fail("there are no contenders");
    if (parameters_used_ < parameters_.size()) {
      root_.fail("says nothing of a parameter {" + std::to_string(parameters_.size()) + "}, but '" +
                 parameters_.back() + "' is given");
    }
  }

  static void refuse_unknown(const Node& node, const std::vector<std::string_view>& known) {
    node.expect_object();
    // A key that is misspelt must not silently change what is measured.
    const std::string unknown = node.unknown_keys(known);
    if (!unknown.empty()) node.fail("there is no key like those of " + unknown);
  }

  static double positive(const Node& node) {
    const double value = node.number();
    if (!(value > 0)) node.fail("must be above 0");
    return value;
  }

  static std::optional<double> limit(const Node& node) {
    if (!node.has("time_limit")) return std::nullopt;
    return positive(node.at("time_limit"));
  }

  static Reference reference(const Node& node) {
    refuse_unknown(node, {"name", "overhead", "relative_peak", "minutes"});
    return {.name = string_at(node, "name"),
            .overhead = node.at("overhead").number(),
            .relative_peak = positive(node.at("relative_peak")),
            .minutes = positive(node.at("minutes"))};
  }

  static std::string string_at(const Node& node, std::string_view key) {
    const Node child = node.at(key);
    if (child.string().empty()) child.fail("must not be empty");
    return child.string();
  }

  static std::vector<std::int64_t> seeds(const Node& node) {
    node.expect_array();
    std::vector<std::int64_t> values;
    values.reserve(node.size());
    for (std::size_t i = 0; i < node.size(); ++i) values.push_back(node.element(i).integer());
    if (values.empty()) node.fail("must not be empty");
    return values;
  }

  /// The text with {1}, {2}, ... replaced.
  std::string filled(std::string text, const Node& node) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string mark = "{" + std::to_string(i + 1) + "}";
      if (text.find(mark) != std::string::npos) parameters_used_ = std::max(parameters_used_, i + 1);
      replace_all(text, mark, parameters_[i]);
    }
    const auto open = text.find('{');
    if (open != std::string::npos && open + 2 < text.size() && text[open + 1] >= '1' && text[open + 1] <= '9') {
      node.fail("needs a parameter after the suite for " + text.substr(open, 3));
    }
    return text;
  }

  /// A parameter is a path of whoever gives it; what the suite itself says is one beside the suite.
  std::string path(const Node& node) {
    const std::string& text = node.string();
    const std::string whole = filled(text, node);
    return text.starts_with("{") || fs::path(whole).is_absolute() ? whole : (fs::path(folder_) / whole).string();
  }

  void add_instance(const Node& node, std::vector<SuiteInstance>& instances) {
    refuse_unknown(node, {"name", "file", "make", "folder", "reading", "budgets", "time_limit", "reference"});
    if (node.has("folder")) {
      add_folder(node, instances);
    } else {
      SuiteInstance instance{.name = string_at(node, "name"),
                             .make = read_words(node, "make"),
                             .reading = read_words(node, "reading"),
                             .budgets = read_words(node, "budgets"),
                             .time_limit = limit(node)};
      if (node.has("reference")) instance.reference = reference(node.at("reference"));
      if (node.has("file")) instance.file = path(node.at("file"));
      if (instance.file.empty() == instance.make.empty()) node.fail("needs either file or make");
      add(std::move(instance), node, instances);
    }
  }

  void add_folder(const Node& node, std::vector<SuiteInstance>& instances) {
    refuse_unknown(node, {"folder", "reading", "budgets", "time_limit"});
    const std::string folder = path(node.at("folder"));
    std::error_code error;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    if (error) throw InputError(folder, error.message());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      add({.name = file.filename().string(),
           .file = file.string(),
           .reading = read_words(node, "reading"),
           .budgets = read_words(node, "budgets"),
           .time_limit = limit(node)},
          node, instances);
    }
  }

  void add(SuiteInstance instance, const Node& node, std::vector<SuiteInstance>& instances) {
    if (instance.name.find('/') != std::string::npos) node.fail("the name '" + instance.name + "' has a slash");
    if (!instance_names_.insert(instance.name).second) node.fail("'" + instance.name + "' is there already");
    instances.push_back(std::move(instance));
  }

  [[nodiscard]] Contender contender(const Node& node) const {
    if (node.value().is_string()) {
      const std::string& name = node.string();
      return {.name = name, .arguments = {"--strategy", name}, .asked = "--strategy " + name};
    }
    refuse_unknown(node, {"name", "arguments", "command", "seeds", "most_ops"});
    Contender contender{.name = string_at(node, "name"), .arguments = read_words(node, "arguments")};
    for (const std::string& word : contender.arguments) append_word(contender.asked, word);
    for (const std::string& word : read_words(node, "command")) {
      append_word(contender.asked, word);
      const bool is_path = word.starts_with("./") || word.starts_with("../");
      // Absolute, for a program's name without a slash would be looked for in PATH.
      contender.command.push_back(is_path ? fs::absolute(fs::path(folder_) / word).lexically_normal().string() : word);
    }
    if (contender.arguments.empty() == contender.command.empty()) node.fail("needs either arguments or command");
    if (node.has("seeds")) contender.seeds = seeds(node.at("seeds"));
    if (node.has("most_ops")) contender.most_ops = node.at("most_ops").integer(1);
    return contender;
  }

  const Node& root_;
  std::string folder_;
  const std::vector<std::string>& parameters_;
  std::size_t parameters_used_ = 0;
  std::set<std::string> instance_names_{};
  std::set<std::string> contender_names_{};
};

}  // namespace

Suite read_suite(std::string_view text, const std::string& folder, const std::vector<std::string>& parameters) {
  const Document document = json::parse(text);
  const Node root(document);
  return SuiteReader(root, folder, parameters).read();
}

}  // namespace remora::bench
