// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/process.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/error.hpp"

namespace remora::bench {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);
/// From SIGTERM to SIGKILL.
constexpr double kGrace = 10;
constexpr int kCannotStart = 127;

/// A pipe that closes itself.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw InputError("pipe", std::strerror(errno));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t end) {
    if (ends_.at(end) >= 0) close(ends_.at(end));
    ends_.at(end) = -1;
  }
  [[nodiscard]] int reading() const { return ends_[0]; }
  [[nodiscard]] int writing() const { return ends_[1]; }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// In the child: the first `count` cores that it may use, no others.
void pin(int count) {
  cpu_set_t allowed;
  if (count <= 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (int core = 0; core < CPU_SETSIZE && count > 0; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    CPU_SET(core, &chosen);
    --count;
  }
  sched_setaffinity(0, sizeof chosen, &chosen);
}

/// In the child, between fork and exec: nothing here may allocate.
[[noreturn]] void become(char* const* words, int cores, int errors) {
  setpgid(0, 0);
  pin(cores);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execvp(words[0], words);
  constexpr std::string_view kMessage = "cannot be started\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(kCannotStart);
}

/// Takes what is there from the pipe and keeps the last line that is not empty.
class LastLine {
 public:
  explicit LastLine(int descriptor) : descriptor_(descriptor) {
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }
  void take() {
    std::array<char, 4096> buffer{};
    for (ssize_t count = read(descriptor_, buffer.data(), buffer.size()); count > 0;
         count = read(descriptor_, buffer.data(), buffer.size())) {
      for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(count))) add(c);
    }
  }
  [[nodiscard]] const std::string& text() const { return line_.empty() ? last_ : line_; }

 private:
  void add(char c) {
    if (c != '\n') {
      line_ += c;
    } else if (!line_.empty()) {
      last_ = std::move(line_);
      line_.clear();
    }
  }
  int descriptor_;
  std::string line_{};
  std::string last_{};
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// Waits for the child and ends it where it has to be ended.
class Watch {
 public:
  Watch(pid_t child, const ProcessOptions& options) : child_(child), options_(options) {}

  ProcessOutcome wait_for(LastLine& errors) {
    int status = 0;
    rusage usage{};
    while (wait4(child_, &status, WNOHANG, &usage) == 0) {
      errors.take();
      end_if_due();
      std::this_thread::sleep_for(kPause);
    }
    errors.take();
    outcome_.seconds = elapsed();
    outcome_.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    outcome_.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    outcome_.peak_kibibytes = usage.ru_maxrss;
    outcome_.last_error = errors.text();
    return outcome_;
  }

 private:
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void end_if_due() {
    if (options_.cancel != nullptr && options_.cancel->load()) {
      outcome_.cancelled = true;
      kill(-child_, SIGKILL);
    } else if (elapsed() > options_.patience + kGrace) {
      kill(-child_, SIGKILL);
    } else if (elapsed() > options_.patience && !outcome_.late) {
      outcome_.late = true;
      kill(-child_, SIGTERM);
    }
  }

  pid_t child_;
  const ProcessOptions& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  ProcessOutcome outcome_{};
};

}  // namespace

ProcessOutcome run_process(const std::vector<std::string>& words, const ProcessOptions& options) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  // exec's interface predates const; it changes nothing.
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));  // NOLINT
  pointers.push_back(nullptr);
  Pipe errors;
  const pid_t child = fork();
  if (child < 0) throw InputError(words.front(), std::strerror(errno));
  if (child == 0) become(pointers.data(), options.cores, errors.writing());
  setpgid(child, child);
  errors.close_end(1);
  LastLine last(errors.reading());
  const ProcessOutcome outcome = Watch(child, options).wait_for(last);
  if (outcome.code == kCannotStart) throw InputError(words.front(), outcome.last_error);
  return outcome;
}

}  // namespace remora::bench
