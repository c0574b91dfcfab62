// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/machine.hpp"

#include <cmath>
#include <fstream>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "remora_commit.hpp"

namespace remora::bench {
namespace {

/// What stands behind the colon (or equals sign) on the first line of the file that begins with the key.
std::string field_of(const char* file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find(separator);
    const auto begin = at == std::string::npos ? at : line.find_first_not_of(" \t\"", at + 1);
    if (begin != std::string::npos) return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return "unknown";
}

std::string memory_text() {
  const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::to_string(std::lround(bytes / (1 << 30))) + " GiB";
}

std::string system_text() {
  utsname name{};
  const std::string kernel = uname(&name) == 0 ? std::string(", Linux ") + name.release : "";
  return field_of("/etc/os-release", "PRETTY_NAME", '=') + kernel;
}

}  // namespace

int usable_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

std::string machine_text() {
  return field_of("/proc/cpuinfo", "model name", ':') + ", " + std::to_string(usable_cores()) + " cores, " +
         memory_text() + ", " + system_text();
}

std::string built_commit() {
  return kBuiltCommit;
}

}  // namespace remora::bench
