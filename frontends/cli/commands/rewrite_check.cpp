// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/rewrite_check.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontends/cli/commands/command.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

// POSIX has it nowhere else.
extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace remora::cli {

/// examples/rewrite_onnx/runtime.py
extern const std::string_view kRuntimeScript;

namespace {

using Json = json::Document;

/// The kernel counts pages of a process by the batch on each core: less than that is no difference.
constexpr std::int64_t kResolution = std::int64_t{256} << 10U;

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}

[[noreturn]] void fail(const std::string& python, int error) {
  throw InputError("--python", "'" + python + "' cannot be run: " + std::strerror(error));
}

/// Runs the script with these words and reads its last line.
class Child {
 public:
  explicit Child(const std::string& python) : python_(python) {}

  [[nodiscard]] Json reply(const Words& words) const {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(python_, errno);
    const pid_t child = spawned(words, ends[1]);
    close(ends[1]);
    std::string text;
    std::array<char, 4096> buffer{};
    ssize_t count = 0;
    while ((count = read(ends[0], buffer.data(), buffer.size())) > 0 || (count < 0 && errno == EINTR)) {
      if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const std::string line = last_line(std::move(text));
    if (!WIFEXITED(status))
      throw InputError("--python " + python_, "was ended by signal " + std::to_string(WTERMSIG(status)));
    Json answer = json::parse_or_discard(line);
    if (WEXITSTATUS(status) != 0 || answer.is_discarded())
      throw InputError("--python " + python_, line.empty() ? "says nothing" : line);
    return answer;
  }

 private:
  [[nodiscard]] pid_t spawned(const Words& words, int out) const {
    Words all{python_, "-c", std::string(kRuntimeScript)};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    pid_t child = 0;
    const int error = posix_spawnp(&child, python_.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) fail(python_, error);
    return child;
  }

  const std::string& python_;
};

/// The shapes of the model's inputs, as read.
Json shapes_of(const onnx_frontend::Network& network) {
  Json shapes = Json::object();
  for (const onnx_frontend::Value& value : network.values) {
    if (value.kind == onnx_frontend::ValueKind::input) shapes[value.name] = value.shape;
  }
  return shapes;
}

/// The peaks of runs of both models, with one setting of enable_mem_reuse.
struct Peaks {
  std::int64_t original = 0;
  std::int64_t rewritten = 0;

  [[nodiscard]] std::string text() const {
    return text::bytes_text(Bytes(original)) + " -> " + text::bytes_text(Bytes(rewritten));
  }
};

std::optional<Peaks> peaks_of(const Json& memory, const char* reuse) {
  if (!memory.contains(reuse)) return std::nullopt;
  return Peaks{memory[reuse][0].get<std::int64_t>(), memory[reuse][1].get<std::int64_t>()};
}

/// Either model may run with the setting that suits it.
void print_peaks(std::ostream& out, const Json& memory) {
  const auto off = peaks_of(memory, "off");
  const auto on = peaks_of(memory, "on");
  if (!off || !on) {
    out << "            peaks are measured on Linux alone\n";
    return;
  }
  out << "            measured peak of a run, enable_mem_reuse off: " << off->text() << "\n"
      << "            measured peak of a run, enable_mem_reuse on: " << on->text() << "\n";
  const std::int64_t saved = std::min(off->original, on->original) - std::min(off->rewritten, on->rewritten);
  const char* const rest = " the original's, either with the setting that takes less\n";
  if (saved >= kResolution) {
    out << "            it is " << text::bytes_text(Bytes(saved)) << " below" << rest;
  } else if (saved <= -kResolution) {
    out << "            it is NOT below, but " << text::bytes_text(Bytes(-saved)) << " above" << rest;
  } else {
    out << "            it is NOT measurably below" << rest
        << "            (differences of less than 256 KiB cannot be measured)\n";
  }
}

std::string difference_text(const std::string& output, const Json& farthest) {
  const std::string how =
      farthest.is_null() ? "in shape or by what is no number" : "by " + json::dump(farthest) + " at most";
  return "output " + printable(output) + " differs " + how;
}

}  // namespace

void expect_onnxruntime(const std::string& python) {
  static_cast<void>(Child(python).reply({"version"}));
}

void check_rewritten(std::ostream& out, const std::string& python, const LoadedModel& original,
                     const std::string& rewritten, bool in_slices) {
  const std::string shapes = json::dump(shapes_of(original.lowered.network));
  const Json reply = Child(python).reply({"compare", original.path, rewritten, shapes});
  const Json& differ = reply["differ"];
  bool all_close = in_slices;
  for (const auto& [name, how] : differ.items()) all_close = all_close && how["close"].get<bool>();
  const char* const verdict = differ.empty() ? "bitwise equal" : all_close ? "equal up to rounding" : "DIFFER";
  out << "check       onnxruntime " << reply["version"].get<std::string>() << ": outputs " << verdict << "\n";
  std::string wrong;
  for (const auto& [name, how] : differ.items()) {
    const bool repeats = how["repeats"].get<bool>();
    const std::string line = difference_text(name, how["farthest"]);
    const bool is_close = in_slices && how["close"].get<bool>();
    if (repeats && !is_close && wrong.empty()) wrong = line;
    out << "            " << line << (repeats ? "" : "; the original's own differs from run to run") << "\n";
  }
  print_peaks(out, reply["memory"]);
  if (!wrong.empty()) throw InputError(rewritten, wrong + " from that of " + original.path);
}

}  // namespace remora::cli
