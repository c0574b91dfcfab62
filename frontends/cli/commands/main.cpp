// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/lingering.hpp"
#include "frontends/cli/commands/command.hpp"

namespace {

/// A standard stream that is closed gets a file that refuses what it is asked. Otherwise the next file that is opened would
/// have its number, and messages would go into that.
void hold_standard_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) < 0) {
      static_cast<void>(::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  const remora::cli::MemoryWatch watch(remora::cli::MemoryWatch::Until::hardly_any, remora::cli::end_out_of_memory);
  const int code = remora::cli::run_remora({argv + 1, argv + argc});
  // Everything is written; what still works is for nobody.
  if (remora::has_background_threads()) std::_Exit(code);
  return code;
}
