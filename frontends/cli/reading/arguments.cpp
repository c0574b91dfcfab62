// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/arguments.hpp"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <utility>

#include <unistd.h>

#include "engine/base/options.hpp"
#include "frontends/cli/reading/memory_limit.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/text/text.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

constexpr int kLineLength = 100;
constexpr const char* kFiles = "files";

constexpr const char* kMemoryLimit = "memory-limit";

/// Those of every command.
OptionGroup general_options() {
  OptionGroup general("General");
  general.add_options()(
      kMemoryLimit, po::value<std::string>()->value_name("B"),
      "limit on the program's own memory (2GiB); a search that comes near it ends with its best schedule");
  general.make_expert({kMemoryLimit});
  return general;
}

template <class File>
void read_path(boost::any& value, const std::vector<std::string>& words) {
  po::validators::check_first_occurrence(value);
  value = File{po::validators::get_single_string(words)};
}

/// An empty word is no value of any option, and no file: a shell's variable that is not set, as a rule.
void refuse_empty(const po::parsed_options& parsed, const std::vector<FileArgument>& files) {
  std::size_t position = 0;
  for (const auto& option : parsed.options) {
    const bool is_file = option.string_key == kFiles;
    const std::string file = is_file && position < files.size() ? files[position].name : "an argument";
    position += is_file ? 1 : 0;
    for (const std::string& value : option.value) {
      if (value.empty()) throw UsageError((is_file ? file : "--" + option.string_key) + ": is empty");
    }
  }
}

}  // namespace

/// How Boost reads the two: found by the type of the last but one argument.
void validate(boost::any& value, const std::vector<std::string>& words, InputFile* /*type*/, int /*any*/) {
  read_path<InputFile>(value, words);
}
void validate(boost::any& value, const std::vector<std::string>& words, OutputFile* /*type*/, int /*any*/) {
  read_path<OutputFile>(value, words);
}

FileText read_once(const std::string& path) {
  return {path, json::read_file(path)};
}

po::typed_value<InputFile>* input_file() {
  return po::value<InputFile>()->value_name("FILE");
}

po::typed_value<OutputFile>* output_file(const std::string& usual) {
  auto* value = po::value<OutputFile>()->value_name("FILE");
  return usual.empty() ? value : value->default_value({usual}, usual);
}

std::string spelled(const InputError& error) {
  if (error.kind() != InputError::Place::option) return error.what();
  return "--" + text::dashed(error.place()) + ": " + error.fault();
}

Arguments::Arguments(std::string command, std::string summary, std::vector<FileArgument> files)
    : command_(std::move(command)), summary_(std::move(summary)), files_(std::move(files)) {}

bool Arguments::parse(const std::vector<std::string>& words) {
  OptionGroup all = all_options();
  all.add_options()("help,h", "")("help-all", "")("help-man", "")("help-words", "")(
      kFiles, po::value<std::vector<std::string>>());
  all.add(general_options());
  po::positional_options_description positional;
  positional.add(kFiles, -1);
  // No guessing: an abbreviation that works today would be ambiguous after the next option.
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    const auto parsed = po::command_line_parser(words).options(all).positional(positional).style(style).run();
    refuse_empty(parsed, files_);
    po::store(parsed, values_);
    if (print_asked()) return false;
    po::notify(values_);
  } catch (const po::unknown_option& error) {
    std::string given = error.get_option_name();
    given.resize(std::min(given.find('='), given.size()));
    std::vector<std::string> known;
    for (const auto& option : all.options()) known.push_back("--" + option->long_name());
    const std::string meant = text::nearest(given, known);
    throw UsageError(std::string(error.what()) + (meant.empty() ? "" : "; did you mean " + meant + "?") +
                     " (see 'remora " + command_ + " --help')");
  } catch (const po::error& error) {
    throw UsageError(std::string(error.what()) + " (see 'remora " + command_ + " --help')");
  }
  const std::size_t given = has(kFiles) ? get<std::vector<std::string>>(kFiles).size() : 0;
  if (given < files_.size()) {
    throw UsageError("missing " + files_[given].name + " (see 'remora " + command_ + " --help')");
  }
  if (given > files_.size() && rest_.name.empty()) {
    throw UsageError("unexpected argument '" + get<std::vector<std::string>>(kFiles)[files_.size()] +
                     "' (see 'remora " + command_ + " --help')");
  }
  if (has(kMemoryLimit)) limit_memory(get<std::string>(kMemoryLimit));
  note_files();
  return true;
}

OptionGroup Arguments::all_options() const {
  OptionGroup all;
  for (const OptionGroup& group : groups_) all.add(group);
  return all;
}

void Arguments::adopt(const std::vector<std::string>& words) {
  const OptionGroup all = all_options();
  const OptionValues before = values_;
  try {
    po::store(po::command_line_parser(words).options(all).run(), values_);
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  for (const auto& [name, value] : values_) {
    if (before.count(name) > 0) continue;
    adopted_.insert(name);
    note_input(name, value);
  }
}

void Arguments::note_input(const std::string& option, const po::variable_value& value) {
  if (const auto* read = boost::any_cast<InputFile>(&value.value())) {
    known_files_->will_read(read->path, "the file of --" + option);
  }
}

void Arguments::note_files() {
  for (const FileArgument& argument : files_) known_files_->will_read(file(argument.name), argument.name + " itself");
  for (const auto& [name, value] : values_) {
    note_input(name, value);
    if (const auto* written = boost::any_cast<OutputFile>(&value.value())) {
      known_files_->will_write(written->path, "--" + name);
      if (name != model_output_ && json::is_model_name(written->path)) {
        throw UsageError(
            "--" + name + ": " + written->path +
            " would be no ONNX model; name another file ('remora rewrite' and 'remora order' write models)");
      }
    }
  }
}

const std::string& Arguments::file(const std::string& name) const {
  const auto at = std::find_if(files_.begin(), files_.end(), [&](const FileArgument& f) { return f.name == name; });
  return get<std::vector<std::string>>(kFiles)[static_cast<std::size_t>(at - files_.begin())];
}

std::vector<std::string> Arguments::rest() const {
  const auto& all = get<std::vector<std::string>>(kFiles);
  return {all.begin() + static_cast<std::ptrdiff_t>(files_.size()), all.end()};
}

bool Arguments::print_asked() const {
  if (has("help-man")) {
    print_man();
  } else if (has("help-words")) {
    print_words();
  } else if (has("help") || has("help-all")) {
    print_help();
  } else {
    return false;
  }
  return true;
}

namespace {

/// "-b, --budget B".
std::string name_of(const po::option_description& option) {
  const std::string brief = option.canonical_display_name(po::command_line_style::allow_dash_for_short);
  const bool is_brief = brief.size() == 2 && brief.front() == '-';
  std::string name = is_brief ? brief + ", --" + option.long_name() : "--" + option.long_name();
  if (option.semantic()->max_tokens() > 0) name += " " + option.format_parameter();
  return name;
}

void print_group(const OptionGroup& group, bool shows_experts, std::size_t width) {
  const std::size_t column = width < 80 ? 8 : 28;
  bool is_first = true;
  for (const auto& option : group.options()) {
    if (!shows_experts && group.is_expert(option->long_name())) continue;
    if (std::exchange(is_first, false)) std::cout << "\n" << group.caption() << ":\n";
    const std::string name = "  " + name_of(*option);
    const bool fits = name.size() + 2 <= column;
    std::cout << name << (fits ? std::string(column - name.size(), ' ') : "\n" + std::string(column, ' '));
    std::cout << text::wrapped(option->description(), column, column, width) << "\n";
  }
}

}  // namespace

void Arguments::print_help() const {
  const auto width = static_cast<std::size_t>(text::terminal_width(STDOUT_FILENO, kLineLength));
  std::cout << "usage: remora " << command_ << " [options]";
  for (const FileArgument& file : files_) std::cout << ' ' << file.name;
  if (!rest_.name.empty()) std::cout << " [" << rest_.name << "...]";
  std::cout << "\n\n";
  std::cout << text::wrapped(summary_, 0, 0, width) << "\n\n";
  const auto print_file = [&](const FileArgument& file) {
    std::cout << "  " << file.name << ": " << text::wrapped(file.help, file.name.size() + 4, 4, width) << "\n";
  };
  for (const FileArgument& file : files_) print_file(file);
  if (!rest_.name.empty()) print_file(rest_);
  std::vector<OptionGroup> groups = groups_;
  groups.push_back(general_options());
  std::size_t count = 0;
  std::size_t experts = 0;
  for (const OptionGroup& group : groups) {
    for (const auto& option : group.options()) experts += group.is_expert(option->long_name()) ? 1U : 0U;
    count += group.options().size();
  }
  groups.back().add_options()("help,h", "show this help");
  if (experts > 0) {
    const std::string all = "show all " + std::to_string(count) + " options";
    groups.back().add_options()("help-all", all.c_str());
  }
  for (const OptionGroup& group : groups) print_group(group, has("help-all"), width);
  if (!notes_.empty()) std::cout << "\n";
  // A paragraph begins behind a sentence's end; other ends of lines are the source's.
  for (std::size_t begin = 0; begin < notes_.size();) {
    const std::size_t end = std::min(notes_.find(".\n", begin), notes_.size() - 1) + 1;
    std::cout << text::wrapped(notes_.substr(begin, end - begin), 0, 0, width) << "\n";
    begin = end + 1;
  }
}

namespace {

/// Text for roff: dashes are minus signs, and nothing begins a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '-') out += '\\';
    out += c;
    if (c == '\n') out += "\\&";
  }
  return "\\&" + out;
}

void print_roff(const OptionGroup& group) {
  std::cout << ".SS " << roff(group.caption()) << "\n";
  for (const auto& option : group.options()) {
    std::cout << ".TP\n.B " << roff(name_of(*option)) << "\n" << roff(option->description()) << "\n";
  }
}

}  // namespace

void Arguments::print_man() const {
  // "generate layered" has a page of its own name.
  std::string name = command_;
  if (const auto blank = name.find(' '); blank != std::string::npos) name.replace(blank, 1, "\\-");
  std::cout << ".TH REMORA\\-" << name << " 1 \"\" \"remora " << version() << "\"\n.SH NAME\nremora\\-" << name
            << " \\- " << roff(summary_) << "\n.SH SYNOPSIS\n.B remora " << command_ << "\n[options]";
  for (const FileArgument& file : files_) std::cout << ' ' << file.name;
  if (!rest_.name.empty()) std::cout << " [" << rest_.name << "...]";
  std::cout << "\n";
  for (const FileArgument& file : files_) std::cout << ".TP\n.I " << file.name << "\n" << roff(file.help) << "\n";
  std::cout << ".SH OPTIONS\n";
  for (const OptionGroup& group : groups_) print_roff(group);
  print_roff(general_options());
  if (!notes_.empty()) std::cout << ".SH NOTES\n.nf\n" << roff(notes_) << "\n.fi\n";
  std::cout << ".SH SEE ALSO\n.BR remora (1)\n";
}

void Arguments::print_words() const {
  const OptionGroup all = all_options();
  for (const auto& option : all.options()) {
    std::cout << "--" << option->long_name() << (option->semantic()->max_tokens() == 0 ? "" : "=") << '\t'
              << option->description() << '\n';
  }
  std::cout << "--" << kMemoryLimit << "=\tmemory of the program itself\n--help\tshow the options\n";
}

}  // namespace remora::cli
