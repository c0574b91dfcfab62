// SPDX-License-Identifier: Apache-2.0
//
// Memory for the tensors of one run, each where the plan says. PyTorch's ops allocate their results themselves, by one
// allocator for the CPU that a library may replace (c10::SetCPUAllocator). Ours hands everything on to the one before, but
// for the thread that runs a plan: there the n-th allocation of a call gets the n-th place of that call.
//
//     place(7)                       call 7 is next: [(4096, 0), (64, 8192)]
//     t = aten_mm_default(a, b)      allocates 4096 bytes -> at 0, then 64 -> at 8192
//
// Which allocations a call makes was recorded before, when it ran once on tensors made for it. An allocation of another
// size, one more, or a place that is still taken is an error of the op, with both sizes. `arena.py` builds and calls this.
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

namespace {

/// One mapping. It goes when its owner has left it, nothing lies in it any more, and no plan runs in it.
struct Memory {
  char* start = nullptr;
  std::int64_t size = 0;
  bool owned = true;
  /// Programs that run in it now.
  std::int64_t running = 0;
  /// Offset and size of what lies there.
  std::map<std::int64_t, std::int64_t> blocks{};
};

/// A recorded allocation.
struct Event {
  std::int64_t size, address, begin, end;
};

struct Recorded {
  c10::DataPtr own{};
  std::size_t event = 0;
  std::int64_t recording = 0;
};

/// A thread that runs a plan: where its calls' places begin in `slots`, pairs of a size and an offset (-1: on the
/// heap).
struct Run {
  Memory* memory = nullptr;
  const std::int64_t* starts = nullptr;
  const std::int64_t* slots = nullptr;
  std::int64_t next = 0, end = 0;
  /// Bytes that went to the heap so far.
  std::int64_t on_heap = 0;
  bool active = false;
};

std::mutex mutex;
/// By where they end, to find the one that an address lies in.
std::map<const char*, Memory*> memories;
std::unordered_map<void*, Recorded> recorded;
std::vector<Event> events;
std::int64_t recording = 0;
std::int64_t clock_now = 0;
thread_local bool records = false;
thread_local Run run;
thread_local bool places = false;

void report(void* data, std::int64_t size) {
  if (c10::memoryProfilingEnabled()) {
    c10::reportMemoryUsageToProfiler(data, size, 0, 0, c10::Device(c10::DeviceType::CPU));
  }
}

/// Under the mutex: whether somebody else's tensors lie there, or will.
bool in_use(const Memory* memory) {
  return memory->running > 0 || !memory->blocks.empty();
}

/// Under the mutex.
void unmap_if_left(Memory* memory) {
  if (memory->owned || in_use(memory)) return;
  memories.erase(memory->start + memory->size);
  munmap(memory->start, static_cast<std::size_t>(memory->size));
  delete memory;
}

void release_placed(void* data) {
  const std::lock_guard lock(mutex);
  Memory* memory = memories.upper_bound(static_cast<const char*>(data))->second;
  const auto block = memory->blocks.find(static_cast<char*>(data) - memory->start);
  report(data, -block->second);
  memory->blocks.erase(block);
  unmap_if_left(memory);
}

void release_recorded(void* data) {
  c10::DataPtr own;
  const std::lock_guard lock(mutex);
  const auto found = recorded.find(data);
  if (found->second.recording == recording) events[found->second.event].end = ++clock_now;
  own = std::move(found->second.own);
  recorded.erase(found);
}

void release_any(void* data);

class PlacingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t n) override {
    const auto size = static_cast<std::int64_t>(n);
    if (size > 0 && places) return place(size);
    if (size > 0 && records) return record(n);
    if (run.active) run.on_heap += size;
    return before->allocate(n);
  }

  /// Some kernels allocate and free by themselves.
  c10::DeleterFnPtr raw_deleter() const override { return &release_any; }

  void copy_data(void* to, const void* from, std::size_t count) const override { before->copy_data(to, from, count); }

  c10::Allocator* before = nullptr;

 private:
  c10::DataPtr place(std::int64_t size) {
    TORCH_CHECK(run.next < run.end, "remora: an op allocates ", size, " bytes more than when it was recorded");
    const std::int64_t expected = run.slots[2 * run.next];
    const std::int64_t offset = run.slots[2 * run.next + 1];
    TORCH_CHECK(size == expected, "remora: an op allocates ", size, " bytes where ", expected, " were recorded");
    ++run.next;
    if (offset < 0) {
      run.on_heap += size;
      return before->allocate(static_cast<std::size_t>(size));
    }
    Memory& memory = *run.memory;
    char* data = memory.start + offset;
    {
      const std::lock_guard lock(mutex);
      const auto above = memory.blocks.lower_bound(offset);
      const bool under = above != memory.blocks.end() && above->first < offset + size;
      const bool over = above != memory.blocks.begin() && std::prev(above)->first + std::prev(above)->second > offset;
      TORCH_CHECK(!under && !over && offset + size <= memory.size, "remora: the place of ", size, " bytes at ", offset,
                  " is taken");
      memory.blocks.emplace(offset, size);
    }
    report(data, size);
    return {data, data, &release_placed, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DataPtr record(std::size_t n) {
    c10::DataPtr own = before->allocate(n);
    void* data = own.get();
    const std::lock_guard lock(mutex);
    events.push_back({static_cast<std::int64_t>(n), static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(data)),
                      ++clock_now, -1});
    recorded[data] = {std::move(own), events.size() - 1, recording};
    return {data, data, &release_recorded, c10::Device(c10::DeviceType::CPU)};
  }
};

PlacingAllocator* allocator() {
  static auto* const one = new PlacingAllocator;  // tensors may be freed after static destruction has begun
  return one;
}

void release_any(void* data) {
  bool is_placed = false;
  bool is_recorded = false;
  {
    const std::lock_guard lock(mutex);
    const auto memory = memories.upper_bound(static_cast<const char*>(data));
    is_placed = memory != memories.end() && static_cast<const char*>(data) >= memory->second->start;
    is_recorded = !is_placed && recorded.contains(data);
  }
  if (is_placed) return release_placed(data);
  if (is_recorded) return release_recorded(data);
  allocator()->before->raw_deleter()(data);
}

}  // namespace

extern "C" {

/// Once in a process, before anything else here.
void remora_install() {
  allocator()->before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(allocator());
}

void remora_record() {
  const std::lock_guard lock(mutex);
  events.clear();
  ++recording;
  clock_now = 0;
  records = true;
}

/// How many allocations this thread has made since remora_record.
std::int64_t remora_recorded() {
  const std::lock_guard lock(mutex);
  records = false;
  return static_cast<std::int64_t>(events.size());
}

/// Their sizes, addresses, and at what event each began and ended (-1: it has not).
void remora_events(std::int64_t* rows) {
  const std::lock_guard lock(mutex);
  for (const Event& event : events) {
    for (const std::int64_t value : {event.size, event.address, event.begin, event.end}) *rows++ = value;
  }
}

/// Null where the system has no room.
void* remora_map(std::int64_t size) {
  void* start =
      mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  auto* memory = new Memory{.start = static_cast<char*>(start), .size = size};
  const std::lock_guard lock(mutex);
  memories.emplace(memory->start + size, memory);
  return memory;
}

/// True if tensors are in the arena, or a program runs in it.
std::int64_t remora_in_use(const void* handle) {
  const std::lock_guard lock(mutex);
  return in_use(static_cast<const Memory*>(handle)) ? 1 : 0;
}

/// The memory in which an address lies, or null.
void* remora_home(std::int64_t address) {
  const std::lock_guard lock(mutex);
  const auto* data = reinterpret_cast<const char*>(static_cast<std::intptr_t>(address));
  const auto found = memories.upper_bound(data);
  return found != memories.end() && data >= found->second->start ? found->second : nullptr;
}

/// The memory goes with the last tensor in it; pages on which none lies go at once.
void remora_leave_alone(void* handle) {
  const std::lock_guard lock(mutex);
  auto* memory = static_cast<Memory*>(handle);
  memory->owned = false;
  if (!in_use(memory)) return unmap_if_left(memory);
  constexpr std::int64_t kPage = 4096;
  const auto drop = [&](std::int64_t from, std::int64_t to) {
    from = (from + kPage - 1) / kPage * kPage;
    to = to / kPage * kPage;
    if (from < to) madvise(memory->start + from, static_cast<std::size_t>(to - from), MADV_DONTNEED);
  };
  std::int64_t end = 0;
  for (const auto& [offset, size] : memory->blocks) {
    drop(end, offset);
    end = offset + size;
  }
  drop(end, memory->size);
}

/// This thread's allocations go into the memory, by the places of the calls that remora_place names. The arrays must
/// outlive the run.
void remora_begin(void* handle, const std::int64_t* starts, const std::int64_t* slots) {
  const std::lock_guard lock(mutex);
  ++static_cast<Memory*>(handle)->running;
  run = {.memory = static_cast<Memory*>(handle), .starts = starts, .slots = slots, .active = true};
  places = false;
}

/// The next allocations are those of this call; -1: of none, they go to the heap.
void remora_place(std::int64_t call) {
  places = call >= 0;
  if (places) {
    run.next = run.starts[call];
    run.end = run.starts[call + 1];
  }
}

/// The bytes that were allocated on the heap since remora_begin.
std::int64_t remora_end() {
  places = false;
  const std::lock_guard lock(mutex);
  --run.memory->running;
  unmap_if_left(run.memory);
  return std::exchange(run, {}).on_heap;
}

}  // extern "C"
