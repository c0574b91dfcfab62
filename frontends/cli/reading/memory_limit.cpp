// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/memory_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <stop_token>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "model/types.hpp"

namespace remora::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{20};
/// Of ten.
constexpr std::uint64_t kPartsInUse = 9;

/// Bytes of data of this process; 0 where the system does not say.
std::uint64_t data_in_use() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  // Size, resident, shared, text, library, data: the kernel's order.
  for (int column = 0; column < 6; ++column) file >> pages;
  return file ? pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

/// What limit_memory, or the shell before it, has set.
std::optional<std::uint64_t> limit_of_process() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

void limit_memory(const std::string& text) {
  const std::string option = "--memory-limit";
  if (text.find('%') != std::string::npos) throw UsageError(option + ": takes bytes (2GiB), not " + text);
  const Bytes most = read_budget(text, Bytes(0), Bytes(0), option);
  struct rlimit limit {};
  getrlimit(RLIMIT_DATA, &limit);
  const auto wanted = static_cast<rlim_t>(most.count());
  if (wanted <= data_in_use()) throw UsageError(option + ": the program alone takes more than " + text);
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_DATA, &limit) != 0) throw UsageError(option + ": the system refuses " + text);
}

MemoryWatch::MemoryWatch(std::function<void()> is_short) {
  const std::optional<std::uint64_t> limit = limit_of_process();
  if (!limit) return;
  const std::uint64_t most = *limit / (kPartsInUse + 1) * kPartsInUse;
  thread_ = std::jthread([most, is_short = std::move(is_short)](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (data_in_use() > most) return is_short();
      std::this_thread::sleep_for(kBetweenLooks);
    }
  });
}

}  // namespace remora::cli
