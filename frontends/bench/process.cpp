// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/process.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/error.hpp"

namespace remora::bench {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);
/// From SIGTERM to SIGKILL.
constexpr double kGrace = 10;
/// A look at the child's memory in so many pauses.
constexpr int kPausesBetweenLooks = 20;
constexpr std::size_t kLongestLine = 400;

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
[[noreturn]] void become(char* const* words, int cores, int errors, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_DFL);
  pin(cores);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execvp(words[0], words);
  const int reason = errno;
  [[maybe_unused]] const auto written = write(failure, &reason, sizeof reason);
  _exit(1);
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
    if (c != '\n' && c != '\r') {
      if (line_.size() < kLongestLine) line_ += c >= ' ' && c <= '~' ? c : '?';
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
    pid_t ended = 0;
    for (int pauses = 0; (ended = wait4(child_, &status, WNOHANG, &usage)) == 0; ++pauses) {
      errors.take();
      end_if_due();
      if (pauses % kPausesBetweenLooks == 0) look_at_memory();
      std::this_thread::sleep_for(kPause);
    }
    // What it started and left behind would disturb the next measurement.
    kill(-child_, SIGKILL);
    if (ended < 0) throw InputError("wait4", std::strerror(errno));
    errors.take();
    outcome_.seconds = elapsed();
    outcome_.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    outcome_.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    outcome_.last_error = errors.text();
    return outcome_;
  }

 private:
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  /// The system's own maximum (ru_maxrss) would begin with that of this process, from which the child was forked.
  void look_at_memory() {
    std::ifstream status("/proc/" + std::to_string(child_) + "/status");
    for (std::string name; status >> name; status.ignore(kLongestLine, '\n')) {
      if (name != "VmHWM:") continue;
      status >> outcome_.peak_kibibytes;
      return;
    }
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
  // Closed by a successful exec; what comes through is why there was none.
  Pipe failure;
  const pid_t child = fork();
  if (child < 0) throw InputError(words.front(), std::strerror(errno));
  if (child == 0) become(pointers.data(), options.cores, errors.writing(), failure.writing());
  setpgid(child, child);
  errors.close_end(1);
  failure.close_end(1);
  int reason = 0;
  if (read(failure.reading(), &reason, sizeof reason) == sizeof reason) {
    waitpid(child, nullptr, 0);
    throw InputError(words.front(), std::strerror(reason));
  }
  LastLine last(errors.reading());
  return Watch(child, options).wait_for(last);
}

}  // namespace remora::bench
