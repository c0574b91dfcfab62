// SPDX-License-Identifier: Apache-2.0
//
// One command's arguments: options, then files, with help that lists both.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>

#include "frontends/cli/reading/files.hpp"
#include "model/error.hpp"

namespace remora::cli {

/// A bad command line: one line, exit 64.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Options under a caption. All are common ones, which --help shows, except those that are made expert options.
class OptionGroup : public boost::program_options::options_description {
 public:
  explicit OptionGroup(std::string caption = "") : caption_(std::move(caption)) {}

  [[nodiscard]] const std::string& caption() const { return caption_; }

  /// Only --help-all shows the options of these names.
  void make_expert(std::initializer_list<std::string_view> names) { expert_.insert(names.begin(), names.end()); }
  [[nodiscard]] bool is_expert(const std::string& name) const { return expert_.count(name) > 0; }

 private:
  std::string caption_;
  std::set<std::string> expert_;
};
using OptionValues = boost::program_options::variables_map;

/// Type of the value of an option that names a file. parse() refuses a command line that would write over a
/// file which it reads.
struct InputFile {
  std::string path{};
};
struct OutputFile {
  std::string path{};
};

/// A file and what is in it: a pipe can be read but once.
struct FileText {
  std::string path{};
  std::string content{};
};
/// Throws InputError that names the file; - is standard input.
FileText read_once(const std::string& path);

/// For add_options: a file that is read, or written; `usual`: the path where the user gives none, if there is one.
boost::program_options::typed_value<InputFile>* input_file();
boost::program_options::typed_value<OutputFile>* output_file(const std::string& usual = "");

/// A file argument and what it is.
struct FileArgument {
  std::string name{};
  std::string help{};
};

class Arguments {
 public:
  /// `command`: "solve"; `summary`: a sentence; `files`: the positional arguments, all required.
  Arguments(std::string command, std::string summary, std::vector<FileArgument> files);

  /// Adds a group of options to parse and to show in the help.
  void add(const OptionGroup& group) { groups_.push_back(group); }
  /// Text printed after the options.
  void set_notes(std::string notes) { notes_ = std::move(notes); }

  /// The file of this option may be an ONNX model, so that it may have the name of one, which no other output may.
  void may_write_model(std::string option) { model_output_ = std::move(option); }

  /// Any number of further words may follow the files.
  void take_rest(std::string name, std::string help) { rest_ = {std::move(name), std::move(help)}; }

  /// Parses what follows the command's name. False if help was asked for (and printed to standard output).
  /// Throws UsageError.
  bool parse(const std::vector<std::string>& words);

  /// Adds options as if they had been typed, but for those that were. Throws UsageError.
  void adopt(const std::vector<std::string>& words);
  /// True if the option was adopted, not typed.
  [[nodiscard]] bool is_adopted(const std::string& option) const { return adopted_.count(option) > 0; }

  [[nodiscard]] const OptionValues& values() const { return values_; }
  [[nodiscard]] const std::string& file(const std::string& name) const;
  /// Values after the files.
  [[nodiscard]] std::vector<std::string> rest() const;
  [[nodiscard]] bool has(const std::string& option) const { return values_.count(option) > 0; }
  template <class T>
  [[nodiscard]] const T& get(const std::string& option) const {
    return values_[option].as<T>();
  }
  [[nodiscard]] const std::string& input(const std::string& option) const { return get<InputFile>(option).path; }
  [[nodiscard]] const std::string& output(const std::string& option) const { return get<OutputFile>(option).path; }

  /// Files that the command reads and writes; the same for all copies. It holds what the command line names once
  /// parsed.
  [[nodiscard]] Files& files() const { return *known_files_; }

 private:
  [[nodiscard]] OptionGroup all_options() const;
  void note_files();
  void note_input(const std::string& option, const boost::program_options::variable_value& value);
  /// Option instead of a run: --help and its like.
  bool print_asked() const;
  void print_help() const;
  /// A manual page (roff).
  void print_man() const;
  /// An option a line, as completion scripts read them: "--budget=<tab>help".
  void print_words() const;

  std::string command_;
  std::string summary_;
  std::string notes_;
  std::vector<FileArgument> files_;
  FileArgument rest_;
  std::string model_output_;
  std::vector<OptionGroup> groups_;
  OptionValues values_;
  std::set<std::string> adopted_;
  std::shared_ptr<Files> known_files_ = std::make_shared<Files>();
};

/// The error with the option in its place, if there is one, as the command line spells it.
std::string spelled(const InputError& error);

/// The value that stands for `word` in a table of words, or a UsageError that lists them.
template <class T, std::size_t N>
T choose(const std::string& option, const std::string& word, const std::array<std::pair<const char*, T>, N>& table) {
  std::string words;
  for (const auto& [name, value] : table) {
    if (word == name) return value;
    words += words.empty() ? name : std::string(", ") + name;
  }
  throw UsageError("--" + option + ": '" + word + "' is not one of " + words);
}

}  // namespace remora::cli
