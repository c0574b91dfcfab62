// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "engine/base/options.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/bound/highs.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "remora_commit.hpp"

namespace remora::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Words&);
};

constexpr std::array kCommands{
    Command{"solve", "schedule a graph under a memory budget", solve_command},
    Command{"sweep", "solve for many budgets: the curve of time against memory, or the largest batch", sweep_command},
    Command{"order", "find an order of the ops with a small memory peak, without recomputation", order_command},
    Command{"place", "give buffers offsets in one arena: the smallest, or one within a capacity", place_command},
    Command{"fit", "report whether a model fits on devices you do not have", fit_command},
    Command{"pipeline", "choose how the stages of a training pipeline run their microbatches", pipeline_command},
    Command{"verify", "replay a schedule and check it", verify_command},
    Command{"info", "show a graph's size: ops, bytes, peak, lower bound on budgets", info_command},
    Command{"convert", "write a graph as remora-graph JSON, also over several devices", convert_command},
    Command{"rewrite", "write an ONNX model that recomputes what a schedule says, or a training schedule",
            rewrite_command},
    Command{"generate", "write a random layered graph", generate_command},
    Command{"report", "explain a schedule or a sweep: HTML page, figures, tables", report_command},
    Command{"batch", "solve the tasks of a manifest, on one machine or many", batch_command},
    Command{"merge", "show the results of a batch: table, statistics, what is missing", merge_command}};

void print_help(std::ostream& out) {
  constexpr int kLineLength = 100;
  constexpr int kNames = 9;
  const auto width = static_cast<std::size_t>(text::terminal_width(STDOUT_FILENO, kLineLength));
  out << "usage: remora COMMAND [options] FILE...\n\nTensor rematerialization by constraint programming.\n\n";
  for (const Command& command : kCommands) {
    out << "  " << std::left << std::setw(kNames) << command.name
        << text::wrapped(command.summary, kNames + 2, kNames + 2, width) << "\n";
  }
  for (const char* paragraph :
       {"'remora help COMMAND' shows a command's options, 'remora --version' the version; 'remora completions bash' "
        "(or zsh, "
        "fish) prints a script that completes commands and options.",
        "Exit: 0 done, 20 proved infeasible, 21 no schedule found within the limits, 64 bad usage, 65 bad input or an "
        "invalid schedule, 70 internal error, 75 run the batch again."}) {
    out << "\n" << text::wrapped(paragraph, 0, 0, width) << "\n";
  }
}

const Command& command_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  names.insert(names.end(), {"--help", "--version"});
  const std::string meant = text::nearest(name, names);
  std::error_code error;
  if (meant.empty() && std::filesystem::is_regular_file(name, error)) {
    throw UsageError("'" + name + "' is a file, not a command; for example: remora solve " + name + " --budget 80%");
  }
  throw UsageError("there is no command '" + name + "'" + (meant.empty() ? "" : "; did you mean " + meant + "?") +
                   " (see 'remora --help')");
}

constexpr const char* kCompletionsHelp =
    "usage: remora completions SHELL\n\nPrints a script that completes commands and options. SHELL: bash, zsh or "
    "fish.\n\n"
    "  bash: source <(remora completions bash)\n"
    "  zsh:  source <(remora completions zsh), after compinit\n"
    "  fish: remora completions fish | source\n";

int help(const Words& words) {
  if (!words.empty() && words.front() == "completions") {
    std::cout << kCompletionsHelp;
    return kSuccess;
  }
  if (words.empty() || words.front() == "help") {
    print_help(std::cout);
    return kSuccess;
  }
  Words asked{words.begin() + 1, words.end()};
  asked.emplace_back("--help");
  return command_of(words.front()).run(asked);
}

/// The program's own manual page; a command's is `remora COMMAND --help-man`.
void print_man() {
  std::cout << ".TH REMORA 1 \"\" \"remora " << version()
            << "\"\n.SH NAME\nremora \\- tensor rematerialization by constraint programming\n"
               ".SH SYNOPSIS\n.B remora\nCOMMAND [options] FILE...\n.SH COMMANDS\n";
  for (const Command& command : kCommands) {
    std::cout << ".TP\n.BR remora\\-" << command.name << " (1)\n" << command.summary << "\n";
  }
  std::cout
      << ".SH EXIT STATUS\n0 done, 20 proved infeasible, 21 no schedule found within the limits, 64 bad usage, 65 bad "
         "input or an invalid schedule, 70 internal error, 75 run the batch again.\n";
}

/// Prints the words that may follow these, one per line: candidate, tab, help. Options begin with --, and end in = if
/// they take a value. The shells' completion scripts call it, so they never become stale.
int help_words(const Words& words) {
  const std::string first = words.empty() ? "" : words.front();
  if (first.empty() || first == "help") {
    for (const Command& command : kCommands) std::cout << command.name << "\t" << command.summary << "\n";
    std::cout << "completions\tprint a script that completes commands and options\n";
    if (first.empty()) std::cout << "help\tshow a command's options\n";
  } else if (first == "completions") {
    std::cout << "bash\nzsh\nfish\n";
  } else {
    const bool has_family = first == "generate" && words.size() > 1;
    return command_of(first).run(has_family ? Words{words[1], "--help-words"} : Words{"--help-words"});
  }
  return kSuccess;
}

constexpr const char* kBashScript = R"sh(_remora() {
  local word=${COMP_WORDS[COMP_CWORD]} found
  found=$(remora --help-words "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | cut -f1)
  if [[ $found == --* && $word != -* ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "$found" -- "$word")
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  fi
}
complete -F _remora remora
)sh";

constexpr const char* kZshScript = R"sh(#compdef remora
_remora() {
  local -a found
  found=(${(f)"$(remora --help-words ${words[2,CURRENT-1]} 2>/dev/null | cut -f1)"})
  if [[ $found[1] == --* && $words[CURRENT] != -* ]]; then
    _files
  else
    compadd -- ${found:#*=}
    compadd -S '' -- ${(M)found:#*=}
  fi
}
if [[ $funcstack[1] == _remora ]]; then
  _remora "$@"
else
  compdef _remora remora
fi
)sh";

constexpr const char* kFishScript = R"sh(function __remora_words
  set -l words (commandline -opc)
  remora --help-words $words[2..-1] 2>/dev/null
end
function __remora_takes_words
  set -l words (commandline -opc)
  test (count $words) -lt 2; or contains -- "$words[2]" help completions; or test "$words" = "remora generate"
end
complete -c remora -f -n __remora_takes_words
complete -c remora -a '(__remora_words)'
)sh";

int completions(const Words& words) {
  const std::string shell = words.size() == 1 ? words.front() : "";
  if (shell == "--help" || shell == "-h") {
    std::cout << kCompletionsHelp;
  } else if (shell == "bash") {
    std::cout << kBashScript;
  } else if (shell == "zsh") {
    std::cout << kZshScript;
  } else if (shell == "fish") {
    std::cout << kFishScript;
  } else {
    throw UsageError("completions: expected bash, zsh or fish (see 'remora completions --help')");
  }
  return kSuccess;
}

int dispatch(const Words& words) {
  if (words.empty()) throw UsageError("no command given (see 'remora --help')");
  const std::string& name = words.front();
  const Words rest{words.begin() + 1, words.end()};
  if (name == "--help" || name == "-h" || name == "help") return help(rest);
  if (name == "--version" || name == "-V") {
    const HighsFound& highs = find_highs();
    std::cout << "remora " << version() << " (commit " << kBuiltCommit << ")\n"
              << (cover_mip_available() ? "with" : "without") << " COIN-OR CBC, "
              << (highs.name.empty() ? "without HiGHS (" + highs.why_not + ")" : "with " + highs.name) << "\n";
    return kSuccess;
  }
  if (name == "--help-man") {
    print_man();
    return kSuccess;
  }
  if (name == "--help-words") return help_words(rest);
  if (name == "completions") return completions(rest);
  return command_of(name).run(rest);
}

/// Prints what is wrong, of a very long line the two ends: only a name out of a file, of which no path is as long, can
/// make one.
int fail(int code, const std::string& what) {
  constexpr std::size_t kLongestLine = 5000;
  constexpr std::size_t kShown = 300;
  // A file's name may hold ends of lines, too: only what begins so is a line of its own.
  constexpr std::string_view kBeginning = "remora: ";
  const std::string end = "\n" + std::string(kBeginning);
  for (std::size_t begin = 0; begin <= what.size();) {
    const std::size_t length = std::min(what.find(end, begin), what.size()) - begin;
    std::string line = text::visible(std::string_view(what).substr(begin, length));
    if (line.size() > kLongestLine) line.replace(kShown, line.size() - 2 * kShown, " ... ");
    std::cerr << kBeginning << line << "\n";
    begin += length + end.size();
  }
  return code;
}

}  // namespace

void end_out_of_memory() noexcept {
  constexpr std::string_view kLine = "remora: out of memory\n";
  static_cast<void>(!::write(STDERR_FILENO, kLine.data(), kLine.size()));
  ::_exit(kInternalError);
}

namespace {

/// Memory may run out where nothing can be thrown any more: in a destructor (nlohmann's allocates), or a thread.
[[noreturn]] void end_at_once() noexcept {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int run_remora(const Words& words) {
  std::set_terminate(end_at_once);
  try {
    const int code = dispatch(words);
    std::cout.flush();
    return std::cout.good() ? code : fail(kBadInput, "standard output: cannot be written");
  } catch (const UsageError& error) {
    return fail(kUsage, error.what());
  } catch (const InputError& error) {
    return fail(kBadInput, spelled(error));
  } catch (const std::bad_alloc&) {
    return fail(kInternalError, "out of memory");
  } catch (const std::exception& error) {
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    const bool no_thread = system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
    return fail(kInternalError,
                (no_thread ? "out of memory, or of threads: " : "internal error: ") + std::string(error.what()));
  }
}

namespace {

// A signal handler can reach nothing but what has static storage.
std::atomic<bool> signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remora_note_signal(int) {
  signalled.store(true, std::memory_order_relaxed);
}

}  // namespace

SignalGuard::SignalGuard() {
  signalled.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &former_[i]);
    if (former_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : remora_note_signal;
    sigemptyset(&action.sa_mask);
    // The handler serves once: the second signal does what it always did.
    action.sa_flags = kSignals[i] == SIGPIPE ? SA_RESTART : static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(kSignals[i], &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
}

const std::atomic<bool>& SignalGuard::flag() const {
  return signalled;
}

void SignalGuard::watch_memory() {
  memory_.emplace(MemoryWatch::Until::little, [] {
    signalled.store(true, std::memory_order_relaxed);
    std::cerr << "remora: little memory is left; ending with the best so far\n";
  });
}

}  // namespace remora::cli
