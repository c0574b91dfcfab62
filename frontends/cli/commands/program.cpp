// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "engine/base/version.hpp"
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
    Command{"sweep", "the curve of memory against time over many budgets, or the largest batch", sweep_command},
    Command{"order", "an order of small peak memory, without recompute", order_command},
    Command{"place", "offsets for buffers in one arena, as small as possible or within a capacity", place_command},
    Command{"verify", "replay a schedule and check it", verify_command},
    Command{"info", "what a graph holds: ops, bytes, peak, smallest conceivable budget", info_command},
    Command{"convert", "write a graph as remora-graph JSON, or a schedule in a form that others read", convert_command},
    Command{"rewrite", "write an ONNX model with what a schedule recomputes, or a training schedule", rewrite_command},
    Command{"generate", "write a graph of a family: random layered, or a training step", generate_command},
    Command{"report", "show a schedule or a sweep: an HTML page, figures, tables, a trace", report_command},
    Command{"batch", "solve the tasks of a manifest, on one machine or many", batch_command},
    Command{"merge", "the results of a batch: table, statistics, what is missing", merge_command}};

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
        "invalid schedule, 70 internal error, 75 a batch is to be run again."}) {
    out << "\n" << text::wrapped(paragraph, 0, 0, width) << "\n";
  }
}

const Command& command_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::string meant = text::nearest(name, names);
  throw UsageError("there is no command '" + name + "'" + (meant.empty() ? "" : "; did you mean " + meant + "?") +
                   " (see 'remora --help')");
}

int help(const Words& words) {
  if (words.empty()) {
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
         "input or an invalid schedule, 70 internal error, 75 a batch is to be run again.\n";
}

/// A script for the shell. It asks this program for its words, so that it never grows old.
int completions(const Words& words) {
  std::string commands;
  for (const Command& command : kCommands) commands.append(commands.empty() ? "" : " ").append(command.name);
  const std::string shell = words.size() == 1 ? words.front() : "";
  if (shell == "bash") {
    std::cout
        << "_remora() {\n"
           "  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
           "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "    mapfile -t COMPREPLY < <(compgen -W '"
        << commands
        << " help' -- \"$word\")\n"
           "  elif [[ $word == -* ]]; then\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$(remora \"$command\" --help-words 2>/dev/null | cut -f1)\" -- "
           "\"$word\")\n"
           "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
           "  else\n"
           "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
           "  fi\n"
           "}\n"
           "complete -o filenames -F _remora remora\n";
  } else if (shell == "zsh") {
    std::cout << "#compdef remora\n"
                 "_remora() {\n"
                 "  if (( CURRENT == 2 )); then\n"
                 "    compadd "
              << commands
              << " help\n"
                 "  elif [[ $words[CURRENT] == -* ]]; then\n"
                 "    compadd -S '' -- ${(f)\"$(remora $words[2] --help-words 2>/dev/null | cut -f1)\"}\n"
                 "  else\n"
                 "    _files\n"
                 "  fi\n"
                 "}\n"
                 "_remora \"$@\"\n";
  } else if (shell == "fish") {
    for (const Command& command : kCommands) {
      std::cout << "complete -c remora -n __fish_use_subcommand -a " << command.name << " -d '" << command.summary
                << "'\n";
    }
    std::cout << "complete -c remora -n 'not __fish_use_subcommand' -a '(remora (commandline -opc)[2] --help-words "
                 "2>/dev/null)'\n";
  } else {
    throw UsageError("completions: expected bash, zsh or fish");
  }
  return kSuccess;
}

int dispatch(const Words& words) {
  if (words.empty()) throw UsageError("no command given (see 'remora --help')");
  const std::string& name = words.front();
  const Words rest{words.begin() + 1, words.end()};
  if (name == "--help" || name == "-h" || name == "help") return help(rest);
  if (name == "--version" || name == "-V") {
    std::cout << "remora " << version() << " (commit " << kBuiltCommit << ")\n";
    return kSuccess;
  }
  if (name == "--help-man") {
    print_man();
    return kSuccess;
  }
  if (name == "completions") return completions(rest);
  return command_of(name).run(rest);
}

/// Prints what is wrong, of a very long line the two ends: only a name out of a file, of which no path is as long, can
/// make one.
int fail(int code, const std::string& what) {
  constexpr std::size_t kLongestLine = 5000;
  constexpr std::size_t kShown = 300;
  std::cerr << "remora: ";
  std::istringstream lines(what);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > kLongestLine) line.replace(kShown, line.size() - 2 * kShown, " ... ");
    std::cerr << line << "\n";
  }
  return code;
}

/// Memory may run out where nothing can be thrown any more: in a destructor (nlohmann's allocates), or a thread.
[[noreturn]] void end_at_once() noexcept {
  constexpr std::string_view kLine = "remora: out of memory\n";
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    static_cast<void>(!::write(STDERR_FILENO, kLine.data(), kLine.size()));
    ::_exit(kInternalError);
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
    return fail(kBadInput, error.what());
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

void SignalGuard::heed_memory() {
  memory_.emplace([] {
    signalled.store(true, std::memory_order_relaxed);
    std::cerr << "remora: --memory-limit: little is left, ends with the best so far\n";
  });
}

}  // namespace remora::cli
