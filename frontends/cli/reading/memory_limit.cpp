// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/memory_limit.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "model/types.hpp"

namespace remora::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooksAtLimit{20};
constexpr std::chrono::milliseconds kBetweenLooks{50};
/// Tenths.
constexpr std::uint64_t kPartsInUse = 9;
/// The part of the process's memory, and the maximum bytes, that count as hardly any: gone in tenths of a second.
constexpr std::uint64_t kHardlyAnyPart = 39;
constexpr std::uint64_t kHardlyAny = 64U << 20U;

struct InUse {
  std::uint64_t resident = 0;
  std::uint64_t data = 0;
};

/// Bytes of this process; 0 where the system does not say.
InUse memory_in_use() {
  std::ifstream file("/proc/self/statm");
  // Size, resident, shared, text, library, data: the kernel's order.
  std::array<std::uint64_t, 6> pages{};
  for (std::uint64_t& number : pages) file >> number;
  if (!file) return {};
  const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {pages[1] * bytes, pages[5] * bytes};
}

/// The number after this word in a file of words and numbers, or in one of a number alone for an empty word.
std::optional<std::uint64_t> number_in(const std::filesystem::path& path, const std::string& word) {
  std::ifstream file(path);
  std::string read;
  while (!word.empty() && file >> read && read != word) {
  }
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  /// The word in memory.stat for the bytes of files that the kernel gives up first.
  const char* idle;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

/// The memory left by a control group, or by one that contains it. A container sees its own group as the highest, and
/// may get a path that it does not have.
std::uint64_t left_of_groups(const std::filesystem::path& highest, const std::filesystem::path& path,
                             const GroupFiles& files) {
  std::uint64_t left = UINT64_MAX;
  std::filesystem::path part = path.relative_path();
  while (true) {
    const std::filesystem::path folder = highest / part;
    const auto limit = number_in(folder / files.limit, "");
    const auto usage = number_in(folder / files.usage, "");
    if (limit && usage) {
      const std::uint64_t used = *usage - std::min(*usage, number_in(folder / "memory.stat", files.idle).value_or(0));
      left = std::min(left, *limit - std::min(*limit, used));
    }
    if (part.empty()) return left;
    part = part.parent_path();
  }
}

/// The limit set by limit_memory, or by the shell before it.
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
  if (wanted <= memory_in_use().data) throw UsageError(option + ": the program alone takes more than " + text);
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_DATA, &limit) != 0) throw UsageError(option + ": the system rejects " + text);
}

std::optional<std::uint64_t> memory_left(const std::string& root) {
  const auto available = number_in(root + "/proc/meminfo", "MemAvailable:");
  if (!available) return std::nullopt;
  constexpr std::uint64_t kKilobyte = 1024;
  std::uint64_t left = (*available + number_in(root + "/proc/meminfo", "SwapFree:").value_or(0)) * kKilobyte;
  std::ifstream groups(root + "/proc/self/cgroup");
  // "4:memory:/path", in version 2 "0::/path".
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") left = std::min(left, left_of_groups(root + "/sys/fs/cgroup", path, kVersion2));
    if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, left_of_groups(root + "/sys/fs/cgroup/memory", path, kVersion1));
    }
  }
  return left;
}

MemoryWatch::MemoryWatch(Until until, std::function<void()> is_short) {
  const std::optional<std::uint64_t> limit = until == Until::little ? limit_of_process() : std::nullopt;
  const std::uint64_t most = limit.value_or(UINT64_MAX) / (kPartsInUse + 1) * kPartsInUse;
  thread_ = std::jthread([until, most, pause = limit ? kBetweenLooksAtLimit : kBetweenLooks,
                          is_short = std::move(is_short)](const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(pause)) {
      const InUse in_use = memory_in_use();
      const std::uint64_t left = memory_left().value_or(UINT64_MAX);
      const bool little = in_use.data > most || left < in_use.resident / kPartsInUse;
      const bool hardly_any = left < std::min(in_use.resident / kHardlyAnyPart, kHardlyAny);
      if (until == Until::little ? little : hardly_any) return is_short();
    }
  });
}

}  // namespace remora::cli
