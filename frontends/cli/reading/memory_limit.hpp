// SPDX-License-Identifier: Apache-2.0
//
// Memory that runs out: the program ends with a word where the kernel would kill it, at the limit that --memory-limit
// sets, or else where the machine, or a control group that the process is in, has no more to give.
//
// Under --memory-limit what counts is the process's data: heap, stacks of threads and other memory of its own, as RLIMIT_DATA counts it, some
// of which may never be touched. A search ends with its best so far when less than a tenth is left; what cannot be had at
// all is "out of memory", exit 70, and of a batch the task's error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace remora::cli {

/// Limits this process, for good, to so many bytes: "2GiB". Throws UsageError for what is no amount, or below what the
/// process has already.
void limit_memory(const std::string& text);

/// Bytes that the process can still have: what the machine has available, swap included, or less where a control group
/// says so. Nothing where the system does not tell. `root`: where its files are, instead of /.
std::optional<std::uint64_t> memory_left(const std::string& root = {});

/// Calls a function once, from a thread of its own, when memory is short.
class MemoryWatch {
 public:
  enum class Until {
    little,     ///< less than a tenth is left: of the limit, or of what the process has and can still have
    hardly_any  ///< the process would soon be killed
  };
  MemoryWatch(Until until, std::function<void()> is_short);
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  ~MemoryWatch() = default;

 private:
  std::jthread thread_;
};

}  // namespace remora::cli
