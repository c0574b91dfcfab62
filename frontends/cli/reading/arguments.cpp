// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/arguments.hpp"

#include <algorithm>
#include <iostream>

namespace remora::cli {
namespace po = boost::program_options;
namespace {

constexpr unsigned kLineLength = 110;
constexpr const char* kFiles = "files";

template <class File>
void read_path(boost::any& value, const std::vector<std::string>& words) {
  po::validators::check_first_occurrence(value);
  value = File{po::validators::get_single_string(words)};
}

}  // namespace

/// How Boost reads the two: found by the type of the last but one argument.
void validate(boost::any& value, const std::vector<std::string>& words, InputFile* /*type*/, int /*any*/) {
  read_path<InputFile>(value, words);
}
void validate(boost::any& value, const std::vector<std::string>& words, OutputFile* /*type*/, int /*any*/) {
  read_path<OutputFile>(value, words);
}

po::typed_value<InputFile>* input_file() {
  return po::value<InputFile>()->value_name("FILE");
}

po::typed_value<OutputFile>* output_file(const std::string& usual) {
  auto* value = po::value<OutputFile>()->value_name("FILE");
  return usual.empty() ? value : value->default_value({usual}, usual);
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Arguments::Arguments(std::string command, std::string summary, std::vector<FileArgument> files)
    : command_(std::move(command)),
      summary_(std::move(summary)),
      files_(std::move(files)),
      options_(kLineLength),
      expert_options_(kLineLength) {}

bool Arguments::parse(const std::vector<std::string>& words) {
  OptionGroup all;
  all.add(options_).add(expert_options_);
  all.add_options()("help,h", "")("help-all", "")(kFiles, po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add(kFiles, -1);
  // No guessing: an abbreviation that works today would be ambiguous after the next option.
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(words).options(all).positional(positional).style(style).run(), values_);
    if (has("help") || has("help-all")) {
      print_help();
      return false;
    }
    po::notify(values_);
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
  note_files();
  return true;
}

void Arguments::note_files() {
  for (const FileArgument& argument : files_) known_files_->will_read(file(argument.name), argument.name + " itself");
  for (const auto& [name, value] : values_) {
    if (const auto* read = boost::any_cast<InputFile>(&value.value())) {
      known_files_->will_read(read->path, "the file of --" + name);
    }
    if (const auto* written = boost::any_cast<OutputFile>(&value.value())) {
      known_files_->will_write(written->path, "--" + name);
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

void Arguments::print_help() const {
  std::cout << "usage: remora " << command_ << " [options]";
  for (const FileArgument& file : files_) std::cout << ' ' << file.name;
  if (!rest_.name.empty()) std::cout << " [" << rest_.name << "...]";
  std::cout << "\n\n" << summary_ << "\n\n";
  for (const FileArgument& file : files_) std::cout << "  " << file.name << ": " << file.help << "\n";
  if (!rest_.name.empty()) std::cout << "  " << rest_.name << ": " << rest_.help << "\n";
  std::cout << options_;
  if (has("help-all")) std::cout << expert_options_;
  std::cout << "\nGeneral:\n  -h [ --help ]  show this help\n";
  if (!expert_options_.options().empty()) std::cout << "  --help-all     also the switches of the methods\n";
  if (!notes_.empty()) std::cout << "\n" << notes_ << "\n";
}

}  // namespace remora::cli
