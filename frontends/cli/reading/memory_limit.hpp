// SPDX-License-Identifier: Apache-2.0
//
// --memory-limit: the program ends with a word where the kernel would kill it.
//
// What counts is the process's data: heap, stacks of threads and other memory of its own, as RLIMIT_DATA counts it, some
// of which may never be touched. A search ends with its best so far when less than a tenth is left; what cannot be had at
// all is "out of memory", exit 70, and of a batch the task's error.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace remora::cli {

/// Limits this process, for good, to so many bytes: "2GiB". Throws UsageError for what is no amount, or below what the
/// process has already.
void limit_memory(const std::string& text);

/// Calls a function once, from a thread of its own, when less than a tenth of the limit is left. Without a limit it does
/// nothing.
class MemoryWatch {
 public:
  explicit MemoryWatch(std::function<void()> is_short);
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  ~MemoryWatch() = default;

 private:
  std::jthread thread_;
};

}  // namespace remora::cli
