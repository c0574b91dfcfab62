// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/command.hpp"

int main(int argc, char** argv) {
  return remora::cli::run_remora({argv + 1, argv + argc});
}
